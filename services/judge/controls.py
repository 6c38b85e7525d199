"""The two controls of every comparison: `random` knows nothing, `oracle` knows the truth."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from random import Random
from time import monotonic

from prover.credit.eligibility import anchor as anchor_of
from prover.credit.segments import valid_segments
from prover.trajectory import Group, JudgeCost, Judgement, Proposal, Segment, Trajectory
from services.judge.question import ProposeLimits, check_contrast
from services.judge.ranking import disjoint_best

_UNIFORM = "1"
"""Raised where `random` draws from other segments or in another way."""

BoundaryValues = Callable[[Trajectory], Sequence[float]]
"""V before each turn of a trajectory, and after its last: one number more than there are turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uniform:
    """`random`: uniform over the valid segments of the anchor, the ablation of the paper.

    Repeatable: the draw depends on the limits' seed, the task and the anchor alone.
    """

    name: str = "random"

    async def propose(self, group: Group, limits: ProposeLimits) -> Judgement:
        """See `services.judge.question.Judge`."""
        started = monotonic()
        check_contrast(group)
        anchor = anchor_of(group)
        segments = valid_segments(anchor, max_action_turns=limits.max_action_turns)
        actions = "\n".join(turn.text for turn in anchor.turns)
        key = f"{limits.seed}\n{group.task.task_id}\n{group.task.seed}\n{anchor.id}\n{actions}"
        random = Random(sha256(key.encode()).digest())
        scores = [random.random() for _ in segments]
        best = disjoint_best(segments, scores, limits.max_proposals)
        chosen = [segments[index] for index in best]
        return _answer(self.name, _UNIFORM, chosen, "drawn at random", monotonic() - started)


@dataclass(frozen=True, slots=True, kw_only=True)
class Oracle:
    """`oracle`: the valid segment with the largest true gain, for experiments where the truth is known.

    The shortest segment whose gain is at least `share` of the largest; of several, the one that gains most.
    """

    values: BoundaryValues
    share: float = 0.9
    name: str = "oracle"

    async def propose(self, group: Group, limits: ProposeLimits) -> Judgement:
        """See `services.judge.question.Judge`. Raises ValueError where the values do not fit the anchor."""
        started = monotonic()
        check_contrast(group)
        anchor = anchor_of(group)
        values = self.values(anchor)
        if len(values) != len(anchor.turns) + 1:
            raise ValueError(f"values: {len(values)} for trajectory {anchor.id!r}; expected {len(anchor.turns) + 1}")
        chosen: list[Segment] = []
        segments = valid_segments(anchor, max_action_turns=limits.max_action_turns)
        while len(chosen) < limits.max_proposals and segments:
            gains = [values[segment.last_turn + 1] - values[segment.first_turn] for segment in segments]
            if max(gains) <= 0:
                break
            good = [index for index, gain in enumerate(gains) if gain >= self.share * max(gains)]
            best = segments[min(good, key=lambda index: (len(segments[index]), -gains[index]))]
            chosen.append(best)
            segments = tuple(
                segment
                for segment in segments
                if segment.last_turn < best.first_turn or segment.first_turn > best.last_turn
            )
        return _answer(self.name, f"share-{self.share:g}", chosen, "largest true gain", monotonic() - started)


def _answer(judge: str, version: str, segments: Sequence[Segment], reason: str, seconds: float) -> Judgement:
    proposals = tuple(
        Proposal(segment=segment, failure_mode="not looked at", reason=reason, judge=judge, prompt_version=version)
        for segment in segments
    )
    why_none = "" if proposals else "the successful trajectory has no valid segment that it could name"
    return Judgement(
        judge=judge,
        prompt_version=version,
        proposals=proposals,
        no_proposal_reason=why_none,
        cost=JudgeCost(seconds=seconds),
    )
