"""Groups in, credited trajectories out.

Eligible groups are submitted over REST and get the advantages of their analysis. All others, and those whose analysis
came to nothing, keep plain GRPO advantages. An analysis that failed is counted under its status in the step's record;
a gateway that refuses or does not answer ends the run, since a run without verification is another experiment.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from prover.client import continuations_to_nouns
from prover.client.documents import Advantages, Analysis, Continuations
from prover.client.errors import ProblemError
from prover.credit.advantages import assign_credit
from prover.credit.eligibility import eligible
from prover.training.experiment import Experiment
from prover.training.records import Verified
from prover.training.sampling import has_signal
from prover.trajectory import CreditedTrajectory, Group, TrajectoryCredit, TurnCredit

_log = logging.getLogger(__name__)
_TIMED_OUT = "timed_out"
_CONFLICT = 409


class Gateway(Protocol):
    """The gateway: `prover.client.AsyncProverClient`."""

    async def submit(self, group: Group, options: Mapping[str, object] | None = None) -> str:
        """The analysis' id."""
        ...

    async def wait(self, analysis_id: str, *, timeout_s: float | None = None) -> Analysis:
        """Once it has ended. TimeoutError."""
        ...

    async def advantages(self, analysis_id: str) -> Advantages:
        """Of an analysis that has ended."""
        ...

    async def continuations(self, analysis_id: str) -> Continuations:
        """Of an analysis that has ended and kept them."""
        ...

    async def cancel(self, analysis_id: str) -> None:
        """Stops an analysis."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Credited:
    """A batch for the learner, and what it took to get it.

    Attributes:
        judge_seconds: the judge's own time, over all groups; part of `seconds`.
    """

    batch: tuple[CreditedTrajectory, ...]
    groups: int
    dropped: int
    verified: Verified
    judge_seconds: float
    judge_tokens: int
    verification_tokens: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    group: Group
    credits: Sequence[TrajectoryCredit] | None
    status: str = ""
    analysis: Analysis | None = None
    continuations: Sequence[CreditedTrajectory] = ()


def is_eligible(group: Group) -> bool:
    """Whether the group would be verified: mixed, and with few successes."""
    successes = sum(trajectory.success for trajectory in group.trajectories)
    return eligible(successes, len(group.trajectories))


async def credit_groups(
    gateway: Gateway, groups: Sequence[Group], experiment: Experiment, *, progress: Callable[[int, int], None]
) -> Credited:
    """The credited trajectories of all groups that have a signal (of all groups, where sampling is not dynamic)."""
    begun = time.monotonic()
    chosen = [group for group in groups if has_signal(group, experiment.credit) or not experiment.rollouts.dynamic]
    finished = 0

    async def one(group: Group) -> _Result:
        nonlocal finished
        result = await _credit(gateway, group, experiment)
        finished += 1
        progress(finished, len(chosen))
        return result

    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(one(group)) for group in chosen]
    results = [task.result() for task in running]
    return _add_up(results, experiment, seconds=time.monotonic() - begun)


def options_of(experiment: Experiment) -> dict[str, object]:
    """What analyses are asked for: the sampling of the continuations is that of the training."""
    credit, rollouts = experiment.credit, experiment.rollouts
    options: dict[str, object] = {
        "judge": credit.judge,
        "mode": credit.mode,
        "max_turns": rollouts.max_turns,
        "agent": rollouts.agent,
        "temperature": rollouts.temperature,
        "top_p": rollouts.top_p,
        "max_tokens": rollouts.max_tokens,
        "normalise_std": credit.normalise_std,
        "allowed_lag": experiment.max_lag,
        "keep_continuations": credit.train_continuations,
        "proposals": credit.proposals,
        "credit": credit.credit,
    }
    given = {
        "samples": credit.samples,
        "lambda": credit.weight,
        "budget": credit.budget,
        "audited_share": credit.audited_share,
    }
    return options | {name: value for name, value in given.items() if value is not None}


async def _credit(gateway: Gateway, group: Group, experiment: Experiment) -> _Result:
    settings = experiment.credit
    plain = assign_credit(group, normalise_std=settings.normalise_std)
    if settings.method == "grpo" or not is_eligible(group):
        return _Result(group=group, credits=plain)
    analysis_id = await gateway.submit(group, options_of(experiment))
    try:
        analysis = await gateway.wait(analysis_id, timeout_s=settings.timeout_s)
    except TimeoutError as error:
        _log.warning("%s: plain credit for its group", error)
        await _cancel(gateway, analysis_id)
        return _Result(group=group, credits=plain, status=_TIMED_OUT)
    status = analysis["status"]
    if status == "failed":
        _log.warning("analysis %s failed, plain credit for its group: %s", analysis_id, analysis["error"])
    if status == "stale" and settings.stale == "drop":
        return _Result(group=group, credits=None, status=status, analysis=analysis)
    if status != "done":
        return _Result(group=group, credits=plain, status=status, analysis=analysis)
    credits = credits_from(await gateway.advantages(analysis_id))
    played = await _teaching(gateway, analysis_id) if settings.train_continuations else ()
    return _Result(group=group, credits=credits, status=status, analysis=analysis, continuations=played)


async def _teaching(gateway: Gateway, analysis_id: str) -> Sequence[CreditedTrajectory]:
    """The continuations that fared unlike their siblings; the others have no advantage."""
    played = continuations_to_nouns(await gateway.continuations(analysis_id))
    return [credited for credited in played if credited.credit.group_advantage != 0.0]


async def _cancel(gateway: Gateway, analysis_id: str) -> None:
    try:
        await gateway.cancel(analysis_id)
    except ProblemError as error:
        if error.status != _CONFLICT:  # it has just ended
            raise


def credits_from(advantages: Advantages) -> list[TrajectoryCredit]:
    """The gateway's document as nouns, in its order, which is the group's."""
    return [
        TrajectoryCredit(
            trajectory_id=entry["trajectory_id"],
            group_advantage=entry["group_advantage"],
            turns=tuple(
                TurnCredit(
                    advantage=turn["advantage"],
                    token_advantages=None if turn["token_advantages"] is None else tuple(turn["token_advantages"]),
                )
                for turn in entry["turns"]
            ),
        )
        for entry in advantages["trajectories"]
    ]


def penalise_invalid(credited: CreditedTrajectory, penalty: float) -> CreditedTrajectory:
    """Takes `penalty` from every token of the turns that were malformed or rejected."""
    turns = tuple(
        credit
        if turn.valid
        else TurnCredit(
            advantage=credit.advantage - penalty,
            token_advantages=None
            if credit.token_advantages is None
            else tuple(value - penalty for value in credit.token_advantages),
        )
        for turn, credit in zip(credited.trajectory.turns, credited.credit.turns, strict=True)
    )
    return replace(credited, credit=replace(credited.credit, turns=turns))


def _add_up(results: Sequence[_Result], experiment: Experiment, *, seconds: float) -> Credited:
    penalty = experiment.credit.invalid_penalty
    kept = [(result.group, result.credits) for result in results if result.credits is not None]
    played = [credited for result in results for credited in result.continuations]
    own = tuple(
        penalise_invalid(CreditedTrajectory(trajectory=trajectory, credit=credit), penalty)
        for group, credits in kept
        for trajectory, credit in zip(group.trajectories, credits, strict=True)
    )
    costs: list[Any] = [result.analysis["cost"] for result in results if result.analysis is not None]
    judges = [cost["judge"] for cost in costs if cost["judge"] is not None]
    return Credited(
        batch=own + tuple(played),
        groups=len(kept),
        dropped=len(results) - len(kept),
        verified=replace(
            _verified(results),
            continuations=sum(cost["continuations"] for cost in costs),
            trained_continuations=len(played),
            trained_tokens=sum(len(turn.token_ids or ()) for each in played for turn in each.trajectory.turns),
        ),
        judge_seconds=sum(judge["seconds"] for judge in judges),
        judge_tokens=sum(judge["input_tokens"] + judge["output_tokens"] for judge in judges),
        verification_tokens=sum(cost["continuation_tokens"] for cost in costs),
        seconds=seconds,
    )


def _verified(results: Sequence[_Result]) -> Verified:
    ended = [result.analysis for result in results if result.status == "done" and result.analysis is not None]
    verdicts = [segment["verification"] for analysis in ended for segment in analysis["segments"]]
    bonuses = [verdict["bonus"] for verdict in verdicts if verdict is not None]
    return Verified(
        statuses=dict(sorted(Counter(result.status for result in results if result.status).items())),
        verified=len(bonuses),
        accepted=sum(bonus != 0 for bonus in bonuses),
        bonus_mean=sum(bonuses) / len(bonuses) if bonuses else None,
    )
