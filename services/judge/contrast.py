"""`contrast`: finds the pivotal segment by comparing outcomes, without a model."""

from dataclasses import dataclass
from time import monotonic

import numpy as np

from prover.credit.eligibility import anchor as anchor_of
from prover.credit.segments import valid_segments
from prover.trajectory import Group, JudgeCost, Judgement, Proposal, Segment, Trajectory
from services.judge.alignment import Floats, rarity, relevance, steps, taken
from services.judge.question import ProposeLimits, check_contrast
from services.judge.ranking import disjoint_best


@dataclass(frozen=True, slots=True, kw_only=True)
class ContrastWeights:
    """The constants of the formula. Defaults were chosen on households (bench/judge_household.py), see docs/judges.md.

    Attributes:
        prior: pseudo-trajectories with the group's own success rate in every estimate of a value.
        price: what each action turn beyond the first costs, in success probability.
        carry, keep: how relevance spreads backwards (`services.judge.alignment.relevance`).
        power: relevance is raised to it; below 1 lets weakly linked steps count.
    """

    prior: float = 0.5
    price: float = 0.02
    carry: float = 0.8
    keep: float = 0.8
    power: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """The judge without a model. Deterministic: the same group gives the same answer, whatever the order of failures.

    Walk along the anchor and ask of every other trajectory i how far it kept up. Before turn t its weight is

        w_i(t) = product over u < t of (1 - rho_u^power * (1 - taken_i(u)))

    where taken_i(u) is 1 if i, at any time, took the anchor's step u (same action, same response) or stood in the state
    that it led to (same digest), and rho_u says how much the anchor's ending leans on step u (a backward slice over
    shared rare words, `services.judge.alignment.relevance`). So a failed run drops out where the anchor did something
    that mattered and the run never did. The anchor's own weight is 1. The value before turn t is then the success rate
    among those that kept up, with `prior` pseudo-trajectories of the group's own success rate p:

        V(t) = (prior * p + sum of w_i(t) over successes) / (prior + sum of w_i(t) over all)

    and a segment (l, r) with n action turns scores

        V(r + 1) - V(l) - price * (n - 1).

    The best score wins; of equal ones the shorter segment, then the earlier. Further proposals are the best of those
    that share no turn with a better one. Scores that are not above 0 are not proposed.
    """

    name: str = "contrast"
    weights: ContrastWeights = ContrastWeights()

    async def propose(self, group: Group, limits: ProposeLimits) -> Judgement:
        """See `services.judge.question.Judge`."""
        started = monotonic()
        check_contrast(group)
        anchor = anchor_of(group)
        segments = valid_segments(anchor, max_action_turns=limits.max_action_turns)
        values = self.values(group)
        scores = [self._score(segment, anchor, values) for segment in segments]
        best = [index for index in disjoint_best(segments, scores, limits.max_proposals) if scores[index] > 0]
        proposals = tuple(self._proposal(group, segments[index], values) for index in best)
        return Judgement(
            judge=self.name,
            prompt_version="",
            proposals=proposals,
            no_proposal_reason="" if proposals else _why_none(segments),
            cost=JudgeCost(seconds=monotonic() - started),
        )

    def values(self, group: Group) -> Floats:
        """(T + 1,): the estimated value before each turn of the anchor, and after the last."""
        anchor, weights = anchor_of(group), self.weights
        others = [trajectory for trajectory in group.trajectories if trajectory is not anchor]
        steps_T = steps(anchor)
        rho_T = relevance(steps_T, rarity(group), carry=weights.carry, keep=weights.keep) ** weights.power
        taken_NT = taken(steps_T, [steps(other) for other in others])
        kept_NT = np.cumprod(1.0 - rho_T * (1.0 - taken_NT), axis=1)
        kept_up_NT = np.hstack([np.ones((len(others), 1)), kept_NT])
        won_N = np.array([other.success for other in others], dtype=np.float64)
        rate = (1.0 + won_N.sum()) / len(group.trajectories)
        return (weights.prior * rate + 1.0 + won_N @ kept_up_NT) / (weights.prior + 1.0 + kept_up_NT.sum(axis=0))

    def _score(self, segment: Segment, anchor: Trajectory, values: Floats) -> float:
        turns = anchor.turns[segment.first_turn : segment.last_turn + 1]
        actions = sum(turn.action is not None for turn in turns)
        gain = float(values[segment.last_turn + 1] - values[segment.first_turn])
        # Rounded, so that ties are ties on every machine.
        return round(gain - self.weights.price * (actions - 1), 9)

    def _proposal(self, group: Group, segment: Segment, values: Floats) -> Proposal:
        anchor = anchor_of(group)
        steps_T = steps(anchor)
        failed = [steps(trajectory) for trajectory in group.trajectories if not trajectory.success]
        taken_NT = taken(steps_T, failed)[:, segment.first_turn : segment.last_turn + 1]
        missed = int((taken_NT.min(axis=1) == 0).sum())
        actions = [step.action for step in steps_T[segment.first_turn : segment.last_turn + 1] if step.action]
        named = "; ".join(repr(action) for action in actions)
        before, after = values[segment.first_turn], values[segment.last_turn + 1]
        return Proposal(
            segment=segment,
            failure_mode=f"{missed} of {len(failed)} failed runs never got past: {named}",
            reason=(
                f"among trajectories that kept up with the success, the share that succeeded rises from {before:.2f} "
                f"to {after:.2f} over turns {segment.first_turn} to {segment.last_turn}"
            ),
            judge=self.name,
        )


def _why_none(segments: tuple[Segment, ...]) -> str:
    if not segments:
        return "the successful trajectory has no valid segment: no accepted action with another action after it"
    return "no turn of the successful trajectory sets it apart from the failed ones"
