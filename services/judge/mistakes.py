"""The other half of the question, where credit is signed: at which segment does a failed run go wrong?

Asked of the judge that names the segments of the success too (`limits.max_mistakes`). One segment a failed run at most,
and no step twice: what ten runs did wrong in the same way is one mistake.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import pairwise
from random import Random

from prover.credit.segments import valid_segments
from prover.trajectory import Group, Judgement, Proposal, Segment, Trajectory
from services.judge.alignment import steps, taken
from services.judge.chain import Chain, chain
from services.judge.question import Judge, ProposeLimits

_PRIOR = 0.2
"""Pseudo-moves of the chain that win at the group's success rate."""
_STRAY = 0.3
"""What a step is held to lose that leaves the way of every success, in success probability."""
_PRICE = 0.08
"""What each action turn beyond the first costs, in success probability."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scored:
    """`taken`: its steps, as (where, action): the state's digest, or what was read where there is none."""

    score: float
    segment: Segment
    taken: tuple[tuple[str, str], ...]


def strayed(group: Group, limits: ProposeLimits) -> list[Proposal]:
    """`contrast`: where a failed run leaves the states and steps from which the group went on to succeed.

    A step t of a failed run loses, as an estimate of V(t) - V(t + 1),

        M(t) - M(t + 1) + stray * (1 where no success took step t and t is the first step or step t - 1 was one's)

    with M the value in the group's recorded chain with all turns left, so that time alone is no mistake
    (`services.judge.chain`; 0 throughout without digests). A segment scores the sum less a price for each further
    action. Scores that are not above 0 are not proposed.
    """
    recorded = chain(group, prior=_PRIOR)
    won = [steps(member) for member in group.trajectories if member.success]
    found: list[_Scored] = []
    for run in _failed(group):
        taken_T = taken(steps(run), won).max(axis=0)
        on_the_way = [True, *(value > 0 for value in taken_T)]
        strays = [_STRAY * (on_the_way[turn] and taken_T[turn] == 0) for turn in range(len(run.turns))]
        drops = _drops(run, recorded)
        losses = [drop + stray for drop, stray in zip(drops, strays, strict=True)]
        found += [_scored(run, segment, losses) for segment in _segments(run, limits)]
    chosen = _distinct([one for one in found if one.score > 0], limits.max_mistakes)
    return [
        _proposal(one, "contrast", f"left the way of the successes: estimated loss {one.score:.2f}") for one in chosen
    ]


def at_random(group: Group, limits: ProposeLimits) -> list[Proposal]:
    """`random`: uniform over the valid segments of the failed runs, the control. Repeatable, as `random` is."""
    found: list[_Scored] = []
    for run in _failed(group):
        actions = "\n".join(turn.text for turn in run.turns)
        key = f"{limits.seed}\nmistakes\n{group.task.task_id}\n{group.task.seed}\n{run.id}\n{actions}"
        random = Random(sha256(key.encode()).digest())
        for segment in _segments(run, limits):
            found.append(replace(_scored(run, segment, [0.0] * len(run.turns)), score=random.random()))
    return [_proposal(one, "random", "drawn at random") for one in _distinct(found, limits.max_mistakes)]


MISTAKES: Mapping[str, Callable[[Group, ProposeLimits], list[Proposal]]] = {"contrast": strayed, "random": at_random}


@dataclass(frozen=True, slots=True, kw_only=True)
class WithMistakes:
    """A judge that names mistakes as well, after its own proposals, where it is asked to.

    They are looked for by `executor` (None: the event loop's own), in the time that the judge's proposals have left.
    """

    judge: Judge
    executor: Executor | None = None

    @property
    def name(self) -> str:
        """The judge's own."""
        return self.judge.name

    async def propose(self, group: Group, limits: ProposeLimits) -> Judgement:
        """See `services.judge.question.Judge`. ValueError also where this judge knows of no mistakes."""
        if limits.max_mistakes == 0:
            return await self.judge.propose(group, limits)
        if self.name not in MISTAKES:
            raise ValueError(
                f"judge: was {self.name!r}, asked for mistakes of failed trajectories (signed credit); "
                f"expected one of {', '.join(sorted(MISTAKES))}"
            )
        judgement = await self.judge.propose(group, limits)
        work = asyncio.get_running_loop().run_in_executor(self.executor, MISTAKES[self.name], group, limits)
        try:
            async with asyncio.timeout(limits.timeout_s - judgement.cost.seconds):
                found = await work
        except TimeoutError:
            return judgement
        if not found:
            return judgement
        return replace(judgement, proposals=(*judgement.proposals, *found), no_proposal_reason="")


def _failed(group: Group) -> list[Trajectory]:
    return [member for member in group.trajectories if not member.success]


def _segments(run: Trajectory, limits: ProposeLimits) -> Sequence[Segment]:
    return valid_segments(run, max_action_turns=limits.max_action_turns)


def _drops(run: Trajectory, recorded: Chain | None) -> list[float]:
    if recorded is None:
        return [0.0] * len(run.turns)
    return [before - after for before, after in pairwise(recorded.timeless_along(run))]


def _scored(run: Trajectory, segment: Segment, losses: Sequence[float]) -> _Scored:
    inside = slice(segment.first_turn, segment.last_turn + 1)
    done = tuple(
        (turn.digest or turn.observation, turn.action) for turn in run.turns[inside] if turn.action is not None
    )
    score = round(sum(losses[inside]) - _PRICE * (len(done) - 1), 6)
    return _Scored(score=score, segment=segment, taken=done)


def _distinct(found: Sequence[_Scored], most: int) -> list[_Scored]:
    """The best, of equal ones the shorter and then the earlier; whatever the order of the runs."""
    chosen: list[_Scored] = []
    for one in sorted(found, key=lambda one: (-one.score, len(one.segment), one.segment.first_turn, one.taken)):
        known = any(
            one.segment.trajectory_id == other.segment.trajectory_id or set(one.taken) & set(other.taken)
            for other in chosen
        )
        if not known and len(chosen) < most:
            chosen.append(one)
    return chosen


def _proposal(one: _Scored, judge: str, why: str) -> Proposal:
    first, last = one.segment.first_turn, one.segment.last_turn
    return Proposal(
        segment=one.segment,
        failure_mode=f"a failed run did: {'; '.join(repr(action) for _, action in one.taken)}",
        reason=f"turns {first} to {last} of a failed run: {why}",
        judge=judge,
    )
