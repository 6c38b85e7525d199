"""What audits have said of each judge: the records of the mode `audited`, as they stand."""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from prover.credit.features import FEATURES_WINDOW, Told, told_apart
from prover.credit.record import WINDOW
from prover.store import Audit, JudgeKey, JudgeRecords
from services.gateway import problems
from services.gateway.problems import Mistake, Problem, shown

_IN_USE_S = 24 * 3600.0
_MOST_IN_USE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRecord:
    """One record.

    Attributes:
        audits: those that count, oldest first.
        kept: how many there are, those that have left the window among them.
        told: what audits say of each value of each feature (`prover.credit.features`).
    """

    key: JudgeKey
    audits: tuple[Audit, ...]
    kept: int
    told: Mapping[str, Mapping[str, Told]]

    @property
    def deltas(self) -> tuple[float, ...]:
        """Of the audits that count, oldest first."""
        return tuple(audit.delta for audit in self.audits)


class RecordShelf:
    """Reads records; the verifier writes them."""

    def __init__(self, records: JudgeRecords, judges: Callable[[], Awaitable[frozenset[str] | None]]) -> None:
        """`judges`: the names that the judge service knows; None where it cannot be asked now."""
        self._records = records
        self._judges = judges

    async def of(self, judge: str) -> tuple[KeptRecord, ...]:
        """A judge's records, none where it was never audited. Problem 404 where nobody knows the judge."""
        found = await self._read(await self._records.keys(judge))
        if found:
            return found
        known = await self._judges()
        if known is None:
            raise problems.unavailable("The judge service", f"it cannot be asked whether it has a judge {shown(judge)}")
        if judge not in known:
            mistake = Mistake(field="judge", was=shown(judge), expected=f"one of {', '.join(sorted(known))}")
            raise Problem(404, "no-such-judge", "There is no such judge", mistakes=[mistake])
        return ()

    async def in_use(self) -> tuple[KeptRecord, ...]:
        """The records of all judges that an audit has joined within a day."""
        return await self._read(await self._records.in_use(since=time.time() - _IN_USE_S, limit=_MOST_IN_USE))

    async def _read(self, keys: tuple[JudgeKey, ...]) -> tuple[KeptRecord, ...]:
        return tuple([await self._record(key) for key in keys])

    async def _record(self, key: JudgeKey) -> KeptRecord:
        audits = await self._records.audits(key, limit=FEATURES_WINDOW)
        told = told_apart([(audit.features, audit.delta) for audit in audits if audit.features is not None])
        return KeptRecord(key=key, audits=audits[-WINDOW:], kept=await self._records.kept(key), told=told)
