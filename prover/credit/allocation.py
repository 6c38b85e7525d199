"""Several segments in one analysis: who gets the next continuations, and what each of them is worth in the end.

Every segment is weighed by itself, by the rule of the mode. They meet in two places. Segments that share a boundary
share its continuations: what one of them asks for, the other need not. And where the analysis has a budget, the next
round goes to those that learn most from it. docs/verification.md says why.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from prover.credit.rules import Evidence, Rule
from prover.trajectory import Verification


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """A segment in the balance: the names of its boundaries, and what is known of it."""

    before: str
    after: str
    evidence: Evidence


def next_round(
    rule: Rule, segments: Sequence[Weighed], *, samples: int, budget: int | None = None
) -> Mapping[str, int] | None:
    """How many continuations each boundary shall have in all after the next round; None where it is time to settle.

    At most `samples` a boundary, and at most `budget` of all boundaries together.
    """
    played = _played(segments)
    asked = [(plan, one) for one in segments if (plan := rule.plan(one.evidence, samples=samples)) is not None]
    wanted = dict(played)
    left = None if budget is None else budget - sum(played.values())
    # Stable: of plans that teach as much the better proposal's comes first.
    for plan, one in sorted(asked, key=lambda pair: -pair[0].rate):
        share = {one.before: max(plan.before, wanted[one.before]), one.after: max(plan.after, wanted[one.after])}
        cost = sum(total - wanted[side] for side, total in share.items())
        if left is not None:
            if cost > left:
                continue
            left -= cost
        wanted |= share
    return wanted if wanted != played else None


def settle_all(rule: Rule, segments: Sequence[Weighed], *, samples: int, weight: float) -> tuple[Verification, ...]:
    """The verdicts, in the order of the segments. One that the rule would have gone on with says why it did not."""
    verdicts: list[Verification] = []
    for one in segments:
        verdict = rule.settle(one.evidence, samples=samples, weight=weight)
        if rule.plan(one.evidence, samples=samples) is not None:
            verdict = replace(verdict, stopped_because="budget: the continuations of the whole analysis were played")
        verdicts.append(verdict)
    return tuple(verdicts)


def _played(segments: Sequence[Weighed]) -> dict[str, int]:
    played: dict[str, int] = {}
    for one in segments:
        played[one.before] = one.evidence.before.samples
        played[one.after] = one.evidence.after.samples
    return played
