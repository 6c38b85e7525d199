"""An AnalysisStore in memory: the same promises, without Redis. For following the whole system in one process."""

from dataclasses import replace
from typing import Any

from prover.analysis import Analysis, Options, Round
from prover.lifecycle import MOVES, Status
from prover.trajectory import BoundaryCount, Group, Outcome, TrajectoryCredit


class MemoryStore:
    """Every write looks before it writes, as the scripts in prover/store/scripts.py do."""

    def __init__(self) -> None:
        self._analyses: dict[str, Analysis] = {}
        self._groups: dict[str, Group] = {}
        self._credit: dict[str, tuple[TrajectoryCredit, ...]] = {}
        self._outcomes: dict[tuple[str, str, int], Outcome] = {}

    async def create(self, analysis_id: str, group: Group, options: Options) -> Analysis:
        analysis = Analysis(
            id=analysis_id,
            status=Status.QUEUED,
            options=options,
            policy_version=group.policy_version,
            created_at=0.0,
            updated_at=0.0,
        )
        self._analyses[analysis_id], self._groups[analysis_id] = analysis, group
        return analysis

    async def get(self, analysis_id: str) -> Analysis | None:
        return self._analyses.get(analysis_id)

    async def group(self, analysis_id: str) -> Group:
        return self._groups[analysis_id]

    async def credit(self, analysis_id: str) -> tuple[TrajectoryCredit, ...]:
        return self._credit[analysis_id]

    async def write_credit(self, analysis_id: str, credit: tuple[TrajectoryCredit, ...]) -> None:
        self._credit[analysis_id] = credit

    async def move(self, analysis_id: str, status: Status, **fields: Any) -> bool:
        analysis = self._analyses[analysis_id]
        if status not in MOVES[analysis.status]:
            return False
        self._analyses[analysis_id] = replace(analysis, status=status, **fields)
        return True

    async def advance_round(self, analysis_id: str, *, current: Round | None, following: Round) -> bool:
        analysis = self._analyses[analysis_id]
        if analysis.status is not Status.VERIFYING or analysis.round != current:
            return False
        self._analyses[analysis_id] = replace(analysis, round=following)
        return True

    async def record_outcome(self, analysis_id: str, *, side: str, sample: int, outcome: Outcome) -> bool:
        key = (analysis_id, side, sample)
        if self._analyses[analysis_id].status is not Status.VERIFYING or key in self._outcomes:
            return False
        self._outcomes[key] = outcome
        return True

    async def outcomes(self, analysis_id: str, side: str) -> dict[int, Outcome]:
        wanted = (analysis_id, side)
        return {key[2]: outcome for key, outcome in self._outcomes.items() if key[:2] == wanted}

    async def count(self, analysis_id: str, side: str) -> BoundaryCount:
        outcomes = (await self.outcomes(analysis_id, side)).values()
        return BoundaryCount(
            successes=sum(outcome.success for outcome in outcomes),
            samples=len(outcomes),
            tokens=sum(outcome.tokens for outcome in outcomes),
            policy_versions=tuple(sorted({outcome.policy_version for outcome in outcomes if outcome.policy_version})),
        )

    async def keep_alive(self, analysis_id: str) -> None:
        return None
