"""The judge's record: read before a verdict, added to after an audit."""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from prover.analysis import Analysis
from prover.credit.features import FEATURES_WINDOW, Features, features_of, shift_of, told_apart
from prover.credit.record import WINDOW, mean_interval, no_better_than_chance, record_delta
from prover.store.records import Audit, JudgeKey
from prover.trajectory import Group, Judgement

_CONTROL = "random"
"""The judge that is there to be no better."""

_log = logging.getLogger("verifier")


class Records(Protocol):
    """Where records are kept. `prover.store.JudgeRecords` is one."""

    async def add(self, key: JudgeKey, *, analysis_id: str, delta: float, features: Features | None = None) -> bool:
        """The first audit of an analysis is kept; a second one changes nothing."""
        ...

    async def audits(self, key: JudgeKey, *, limit: int = WINDOW) -> Sequence[Audit]:
        """The latest ones, oldest first."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What a proposal is paid by. `shift` is what the record of those like it is above the whole."""

    deltas: tuple[float, ...]
    shift: float


class Audits:
    """Draws, reads and adds."""

    def __init__(self, records: Records) -> None:
        self._records = records

    async def record(self, analysis: Analysis, group: Group, judgement: Judgement) -> Record:
        """Of the judge's other audits."""
        kept = await self._records.audits(_key(analysis, group, judgement), limit=FEATURES_WINDOW)
        audits = [audit for audit in kept if audit.analysis_id != analysis.id]
        told = told_apart([(audit.features, audit.delta) for audit in audits if audit.features is not None])
        return Record(
            deltas=tuple(audit.delta for audit in audits[-WINDOW:]), shift=shift_of(_features(group, judgement), told)
        )

    async def add(self, analysis: Analysis, group: Group, judgement: Judgement, delta: float) -> None:
        """An audit has ended: its delta joins the record, once however often it is told. The gateway shows records."""
        key = _key(analysis, group, judgement)
        features = _features(group, judgement)
        await self._records.add(key, analysis_id=analysis.id, delta=delta, features=features)
        deltas = [audit.delta for audit in await self._records.audits(key)]
        if key.judge != _CONTROL and no_better_than_chance(deltas):
            _log.warning(
                "judge is no better than chance, as far as audits tell",
                extra={
                    "analysis": analysis.id,
                    "judge": key.judge,
                    "record": record_delta(deltas),
                    "interval": mean_interval(deltas),
                    "audits": len(deltas),
                },
            )


def draw(analysis_id: str) -> float:
    """A number from 0 up to 1 that belongs to the analysis: the same whenever it is asked for."""
    return int.from_bytes(hashlib.sha256(f"audit:{analysis_id}".encode()).digest()[:8], "big") / 2**64


def _key(analysis: Analysis, group: Group, judgement: Judgement) -> JudgeKey:
    return JudgeKey(
        judge=judgement.judge,
        prompt_version=judgement.prompt_version,
        environment=group.task.environment,
        policy=analysis.options.policy,
    )


def _features(group: Group, judgement: Judgement) -> Features:
    return features_of(group, judgement.proposals[0].segment)
