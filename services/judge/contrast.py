"""`contrast`: finds the pivotal segment by comparing outcomes, without a model."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from time import monotonic

import numpy as np

from prover.credit.eligibility import anchor as anchor_of
from prover.credit.segments import valid_segments
from prover.trajectory import Group, JudgeCost, Judgement, Proposal, Segment, Trajectory
from services.judge.alignment import Floats, rarity, relevance, steps, taken
from services.judge.chain import chain
from services.judge.question import ProposeLimits, check_contrast
from services.judge.ranking import disjoint_best

_RULE = "2"
"""Raised where the rule, not a constant of `ContrastWeights`, changes what is proposed. 1 knew of no deadline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContrastWeights:
    """The constants of the formula; docs/judges.md says how they were chosen.

    Attributes:
        prior: pseudo-moves with the group's own success rate in the value of every state of the chain.
        missed: what a step is worth that the ending leans on and no failed run took, in success probability.
        price: what each action turn beyond the first costs, in success probability.
        carry, keep: how relevance spreads backwards (`services.judge.alignment.relevance`).
    """

    prior: float = 0.1
    missed: float = 0.2
    price: float = 0.04
    carry: float = 0.8
    keep: float = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """The judge without a model. Deterministic: the same group gives the same answer, whatever the order of failures.

    A step t of the anchor is worth, as an estimate of V(t + 1) - V(t),

        gain(t) = M(t + 1) - M(t) + missed * rho(t) * (share of the failed runs that never took step t)

    M(t) is the value of the state before turn t, with the turns that are left then, in the Markov chain that the group
    itself recorded: states are digests, moves are drawn as often as the group's trajectories made them, every state has
    `prior` pseudo-moves that win at the group's success rate, less as time runs out (`services.judge.chain`). It knows
    what the group saw: from where do trajectories go on to succeed, and in time?

    A failed run has taken step t if it ever did the same action with the same response, or stood in the state that t
    led to. rho(t) says how much the anchor's ending leans on step t, by a backward slice over shared rare words
    (`services.judge.alignment.relevance`); detours, steps that do not shorten the way to a win through recorded moves,
    have rho 0. It knows what the group could not see: what would have helped those who never tried.

    Without digests the chain says nothing: M is constant and no step is a detour. A segment (l, r) with n action turns
    scores

        gain(l) + ... + gain(r) - price * (n - 1).

    The best score wins; of equal ones the shorter segment, then the earlier. Further proposals are the best of those
    that share no turn with a better one. Scores that are not above 0 are not proposed.

    A group of many long texts takes seconds, so the work is done by `executor` (None: the event loop's own), and not on
    the event loop, within the limits' time.
    """

    name: str = "contrast"
    weights: ContrastWeights = ContrastWeights()
    executor: Executor | None = None

    @property
    def version(self) -> str:
        """The rule and a hash of its constants: audits of one record were all chosen in the same way."""
        return f"{_RULE}-{sha256(repr(self.weights).encode()).hexdigest()[:8]}"

    async def propose(self, group: Group, limits: ProposeLimits) -> Judgement:
        """See `services.judge.question.Judge`."""
        started = monotonic()
        check_contrast(group)
        work = asyncio.get_running_loop().run_in_executor(self.executor, self._compare, group, limits)
        try:
            async with asyncio.timeout(limits.timeout_s):
                proposals, why_none = await work
        except TimeoutError:
            proposals, why_none = (), f"limits: the group was not compared within {limits.timeout_s:g} s"
        return Judgement(
            judge=self.name,
            prompt_version=self.version,
            proposals=proposals,
            no_proposal_reason=why_none,
            cost=JudgeCost(seconds=monotonic() - started),
        )

    def gains(self, group: Group) -> Floats:
        """(T,): the estimated worth of each step of the anchor."""
        anchor, weights = anchor_of(group), self.weights
        steps_T = steps(anchor)
        recorded = chain(group, prior=weights.prior)
        gain_T, on_the_way = np.zeros(len(steps_T)), [True] * len(steps_T)
        if recorded is not None:
            gain_T = np.diff(recorded.values_along(anchor))
            on_the_way = [after < before for before, after in pairwise(recorded.distances_along(anchor))]
        failed = [steps(trajectory) for trajectory in group.trajectories if not trajectory.success]
        missed_T = 1.0 - taken(steps_T, failed).mean(axis=0)
        rho_T = relevance(steps_T, rarity(group), on_the_way=on_the_way, carry=weights.carry, keep=weights.keep)
        return gain_T + weights.missed * rho_T * missed_T

    def _compare(self, group: Group, limits: ProposeLimits) -> tuple[tuple[Proposal, ...], str]:
        """The proposals, or none and why."""
        anchor = anchor_of(group)
        segments = valid_segments(anchor, max_action_turns=limits.max_action_turns)
        if not segments:
            return (), "the successful trajectory has no valid segment: no accepted action with another action after it"
        sums = np.concatenate([[0.0], np.cumsum(self.gains(group))])
        gains = [float(sums[segment.last_turn + 1] - sums[segment.first_turn]) for segment in segments]
        scores = self._scores(anchor, segments, gains)
        best = [index for index in disjoint_best(segments, scores, limits.max_proposals) if scores[index] > 0]
        if not best:
            return (), "no turn of the successful trajectory sets it apart from the failed ones"
        return tuple(self._proposal(group, segments[index], gains[index]) for index in best), ""

    def _scores(self, anchor: Trajectory, segments: Sequence[Segment], gains: Sequence[float]) -> list[float]:
        scores: list[float] = []
        for segment, gain in zip(segments, gains, strict=True):
            turns = anchor.turns[segment.first_turn : segment.last_turn + 1]
            actions = sum(turn.action is not None for turn in turns)
            # Rounded, so that ties are ties whatever the order of summation.
            scores.append(round(gain - self.weights.price * (actions - 1), 6))
        return scores

    def _proposal(self, group: Group, segment: Segment, gain: float) -> Proposal:
        steps_T = steps(anchor_of(group))
        failed = [steps(trajectory) for trajectory in group.trajectories if not trajectory.success]
        taken_NT = taken(steps_T, failed)[:, segment.first_turn : segment.last_turn + 1]
        missed = int((taken_NT.min(axis=1) == 0).sum())
        actions = [step.action for step in steps_T[segment.first_turn : segment.last_turn + 1] if step.action]
        return Proposal(
            segment=segment,
            failure_mode=f"{missed} of {len(failed)} failed runs never did all of: {'; '.join(map(repr, actions))}",
            reason=(
                f"turns {segment.first_turn} to {segment.last_turn} set the success apart: estimated gain {gain:.2f}, "
                "from where the group's trajectories went on to succeed and from what the failed ones never tried"
            ),
            judge=self.name,
            prompt_version=self.version,
        )
