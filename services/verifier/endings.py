"""How an analysis ends: credit first, then the state, so that whoever sees the state finds the credit."""

import logging

from prover.analysis import Analysis
from prover.credit.advantages import assign_credit
from prover.lifecycle import END_STATES, Status
from prover.store.analyses import AnalysisStore
from prover.trajectory import Group, Judgement, Verification
from services.verifier.metrics import Metrics

_log = logging.getLogger("verifier")


class Endings:
    """Writes the end of an analysis, once. Who comes second changes nothing."""

    def __init__(self, store: AnalysisStore, metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics

    async def plain(self, analysis: Analysis, group: Group, status: Status, **fields: object) -> None:
        """Ends with the group's own advantages: nothing was verified, and nothing is added."""
        if await self._ended(analysis.id):
            return
        await self._write(analysis, group, None, ())
        if not await self._move(analysis.id, status, fields):
            await self._restore(analysis, group)

    async def verified(
        self, analysis: Analysis, group: Group, judgement: Judgement, verdicts: tuple[Verification, ...]
    ) -> None:
        """Ends with each segment's bonus on top of the group's advantages. One verdict a proposal, in their order."""
        if await self._ended(analysis.id):
            return
        await self._write(analysis, group, judgement, verdicts)
        if not await self._move(analysis.id, Status.DONE, {"judgement": judgement, "verifications": verdicts}):
            await self._restore(analysis, group)
            return
        self._metrics.verified(judgement, verdicts)

    async def failed(self, analysis_id: str, reason: str) -> None:
        """Ends with a reason that a person can act on, and the group's own advantages where there is a group."""
        analysis = await self._store.get(analysis_id)
        if analysis is None:
            return
        try:
            group = await self._store.group(analysis_id)
        except KeyError:
            await self._move(analysis_id, Status.FAILED, {"error": reason})
            return
        await self.plain(analysis, group, Status.FAILED, error=reason)

    async def _ended(self, analysis_id: str) -> bool:
        settled = await self._store.get(analysis_id)
        return settled is None or settled.status in END_STATES

    async def _restore(self, analysis: Analysis, group: Group) -> None:
        """Someone else was first, perhaps on other grounds: the credit must be the one that goes with that end."""
        settled = await self._store.get(analysis.id)
        if settled is not None:
            await self._write(analysis, group, settled.judgement, settled.verifications)

    async def _write(
        self, analysis: Analysis, group: Group, judgement: Judgement | None, verdicts: tuple[Verification, ...]
    ) -> None:
        """Without verdicts the group's own advantages."""
        proposals = judgement.proposals if judgement is not None and verdicts else ()
        bonuses = {proposal.segment: verdict.bonus for proposal, verdict in zip(proposals, verdicts, strict=True)}
        credit = assign_credit(group, bonuses=bonuses, normalise_std=analysis.options.normalise_std)
        await self._store.write_credit(analysis.id, credit)

    async def _move(self, analysis_id: str, status: Status, fields: dict[str, object]) -> bool:
        moved = await self._store.move(analysis_id, status, **fields)
        if moved:
            self._metrics.analyses.labels(status.value).inc()
            _log.info("analysis ended", extra={"analysis": analysis_id, "status": status.value, **_said(fields)})
        return moved


def _said(fields: dict[str, object]) -> dict[str, object]:
    return {name: fields[name] for name in ("error", "note") if name in fields}
