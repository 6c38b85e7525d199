"""Continuations that were kept: each boundary's are siblings of one state, and so a group of their own."""

from dataclasses import dataclass

from prover.boundaries import boundaries
from prover.credit.advantages import group_advantages
from prover.lifecycle import END_STATES
from prover.trajectory import Boundary, Trajectory
from services.gateway.gateway import Gateway
from services.gateway.problems import Mistake, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBoundary:
    """One boundary's continuations in the order of `samples`, and an advantage for each: reward less their mean."""

    side: str
    boundary: Boundary
    samples: tuple[int, ...]
    trajectories: tuple[Trajectory, ...]
    advantages: tuple[float, ...]


async def kept_continuations(gateway: Gateway, analysis_id: str) -> tuple[KeptBoundary, ...]:
    """The boundaries of every segment, once the analysis has ended; none where nothing was played.

    Problem 404; 409 before the end, since every sibling moves the mean, and where nothing is kept.
    """
    analysis = await gateway.get(analysis_id)
    if not analysis.options.keep_continuations:
        mistake = Mistake(field="options.keep_continuations", was="false", expected="true when the group is handed in")
        raise Problem(409, "not-kept", "The continuations were not kept", mistakes=[mistake])
    if analysis.status not in END_STATES:
        detail = f"status: was {analysis.status.value}; expected an end state. Ask for the analysis with ?wait= first"
        raise Problem(409, "not-ended", "The analysis has not ended", detail=detail, retry_after_s=1)
    if analysis.judgement is None or not analysis.judgement.proposals:
        return ()
    segments = [proposal.segment for proposal in analysis.judgement.proposals]
    found: list[KeptBoundary] = []
    for side, boundary in boundaries(segments).items():
        trajectories = await gateway.store.continuations(analysis_id, side)
        rewards = [trajectory.reward for trajectory in trajectories.values()]
        if rewards:
            found.append(
                KeptBoundary(
                    side=side,
                    boundary=boundary,
                    samples=tuple(trajectories),
                    trajectories=tuple(trajectories.values()),
                    advantages=tuple(group_advantages(rewards, normalise_std=analysis.options.normalise_std)),
                )
            )
    return tuple(found)
