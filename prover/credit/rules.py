"""What a way of verifying is: it says how many continuations are wanted next, and what the outcomes are worth.

A rule is arithmetic on counts. Who plays the continuations, and where, is none of its business; so the same rule serves
the workers, the pull mode and the simulations.
"""

from dataclasses import dataclass, field
from math import inf
from typing import Protocol

from prover.credit.advantages import mistake_bonus, segment_bonus
from prover.credit.intervals import newcombe_interval
from prover.credit.posterior import independent_delta
from prover.trajectory import BoundaryCount, Verification


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known of a segment: the outcomes at its boundaries, and how its group fared."""

    before: BoundaryCount = field(default_factory=BoundaryCount)
    after: BoundaryCount = field(default_factory=BoundaryCount)
    group_successes: int
    group_size: int
    mistake: bool = False
    """The segment is of a failed trajectory: what is credited is what it lost."""
    begins_with_group: bool = False
    """Every trajectory of the group passed through the very state before the segment, as all do where it is turn 0."""
    draw: float = 0.0
    """A number from 0 up to 1, drawn once for the analysis: whether a rule that verifies a share verifies this one."""
    record: tuple[float, ...] = ()
    """Deltas of the judge's audited proposals, oldest first, this one's left out."""
    shift: float = 0.0
    """What the record of proposals like this one is above the whole: `prover.credit.features`."""

    def __post_init__(self) -> None:
        if not 0 <= self.group_successes <= self.group_size or self.group_size < 1:
            raise ValueError(f"group: {self.group_successes} successes of {self.group_size} trajectories")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How many continuations each boundary shall have in all after the next round.

    `rate` is what each of them is expected to teach, in the rule's own measure: where there is not enough for all
    proposals, the highest comes first. A rule that has no measure wants all or nothing.
    """

    before: int
    after: int
    rate: float = inf


class Rule(Protocol):
    """A mode of verification. Pure: the same evidence gives the same answer."""

    def plan(self, evidence: Evidence, *, samples: int) -> Plan | None:
        """The next round, at most `samples` a boundary in all; None where there is enough to settle."""
        ...

    def settle(self, evidence: Evidence, *, samples: int, weight: float) -> Verification:
        """The verdict. `weight` multiplies the credit (the paper's lambda)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """ProVer (arXiv 2609.36178) to the letter: K continuations from each boundary, delta = mean(R_post) - mean(R_pre),
    bonus = lambda * max(delta, 0).

    `most` caps K, whatever the caller allows: with 1 it is the frugal way, whose single pairs are right on average
    and cost a training run next to nothing.
    """

    most: int | None = None

    def plan(self, evidence: Evidence, *, samples: int) -> Plan | None:
        """All in one round."""
        wanted = samples if self.most is None else min(samples, self.most)
        if evidence.before.samples >= wanted and evidence.after.samples >= wanted:
            return None
        return Plan(before=wanted, after=wanted)

    def settle(self, evidence: Evidence, *, samples: int, weight: float) -> Verification:
        """The raw difference and Newcombe's interval; P(delta > 0) is under uniform priors. The bonus ignores both."""
        delta = rate(evidence.after) - rate(evidence.before)
        before = (evidence.before.successes, evidence.before.samples)
        after = (evidence.after.successes, evidence.after.samples)
        pay = mistake_bonus if evidence.mistake else segment_bonus
        return Verification(
            before=evidence.before,
            after=evidence.after,
            delta=delta,
            interval=newcombe_interval(before, after),
            probability_positive=independent_delta(before, after).probability_positive,
            bonus=pay(delta, weight=weight),
            stopped_because="all continuations were played",
        )


def rate(count: BoundaryCount) -> float:
    """Successes over samples. ValueError where there are none: no outcome is not a failure.

    >>> rate(BoundaryCount(successes=6, samples=8))
    0.75
    """
    if count.samples == 0:
        raise ValueError("samples: was 0; expected at least one continuation")
    return count.successes / count.samples
