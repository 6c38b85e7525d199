"""What a step leaves behind. Everything in it was measured; what was not is None."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import sqrt

from prover.training.curriculum import Outcome
from prover.training.learner import StepMetrics

_Z95 = 1.959964
"""Of a two-sided 95% interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """What a part of a step cost.

    Attributes:
        seconds: wall time. Phases overlap where `max_lag` is 1; the judge's time is part of the verification's.
        tokens: sampled by the policy (rollout, verification, evaluation), read and written by the judge, or trained on.
    """

    seconds: float
    tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Groups of a step, and of their trajectories.

    Attributes:
        sampled: with at least one trajectory.
        failed: in which no attempt came to anything.
        without_signal: nothing in them would earn an advantage. Not trained on where sampling is dynamic.
        eligible: with few enough successes to be worth verifying.
        trained: went to the learner.
        dropped: stale ones, where the experiment drops them.
        failed_attempts: trajectories that did not come about, over all groups.
    """

    sampled: int
    failed: int
    without_signal: int
    eligible: int
    trained: int = 0
    dropped: int = 0
    failed_attempts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What became of the groups that were submitted.

    Attributes:
        statuses: end states of the analyses, and "timed_out", each with its number.
        verified: segments that ended with a bonus, or with none because outcomes said so: one an analysis, unless more
            `proposals` or signed credit were asked for.
        accepted: those with a bonus; that of a mistake is negative.
        bonus_mean: over the verified ones, 0 included; None where there is none.
        continuations: that were played.
        trained_continuations: of these, those that the learner got. Not among the groups' trajectories.
        trained_tokens: their sampled tokens.
    """

    statuses: Mapping[str, int] = field(default_factory=dict[str, int])
    verified: int = 0
    accepted: int = 0
    bonus_mean: float | None = None
    continuations: int = 0
    trained_continuations: int = 0
    trained_tokens: int = 0

    @property
    def acceptance(self) -> float | None:
        """Share of the verified ones that were paid."""
        return self.accepted / self.verified if self.verified else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One step of a run.

    Attributes:
        step: of the loop, from 1.
        started_at: seconds since 1970.
        seconds: from the record before, or the start.
        sampled_from: policy version of the batch; "" where nothing was sampled.
        lag: optimizer steps between that version and the weights that were trained on the batch.
        published: version that serves after the step.
        probe_difference: nats, of the publish's proof; None where nothing was published.
        success_rate: of all sampled trajectories, groups without a signal included.
        invalid_share: of their turns.
        turns_mean: turns of a trajectory.
        learner: None where there was nothing to train on, or where the answer was lost (`recovered`).
        alert: engine and trainer differed by more than the experiment allows.
        recovered: the process ended between the optimizer step and this record; the learner's answer is lost.
    """

    step: int
    started_at: float
    seconds: float
    sampled_from: str
    lag: int
    groups: Groups
    success_rate: float | None
    invalid_share: float | None
    turns_mean: float | None
    verified: Verified
    outcomes: tuple[Outcome, ...]
    phases: Mapping[str, Phase]
    learner_step: int = 0
    published: str = ""
    probe_difference: float | None = None
    learner: StepMetrics | None = None
    alert: bool = False
    recovered: bool = False

    @property
    def eligible_share(self) -> float | None:
        """Of the sampled groups."""
        return self.groups.eligible / self.groups.sampled if self.groups.sampled else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """Success on held-out tasks after `step` steps, with its 95% interval (Wilson). Failed attempts do not count."""

    step: int
    policy_version: str
    successes: int
    trajectories: int
    failed_attempts: int
    seconds: float
    tokens: int

    @property
    def success(self) -> float:
        """The rate."""
        return self.successes / self.trajectories

    @property
    def interval(self) -> tuple[float, float]:
        """95%."""
        return wilson(self.successes, self.trajectories)


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Wilson's 95% interval of a success probability (E. B. Wilson, 1927). ValueError where nothing was tried.

    >>> low, high = wilson(5, 10)
    >>> round(low, 4), round(high, 4)
    (0.2366, 0.7634)
    """
    if not 0 <= successes <= trials or trials == 0:
        raise ValueError(f"successes: was {successes} of {trials}; expected 0 <= successes <= trials, and trials > 0")
    rate, z2 = successes / trials, _Z95**2
    centre = (rate + z2 / (2 * trials)) / (1 + z2 / trials)
    half = _Z95 / (1 + z2 / trials) * sqrt(rate * (1 - rate) / trials + z2 / (4 * trials**2))
    return (0.0 if successes == 0 else centre - half), (1.0 if successes == trials else centre + half)
