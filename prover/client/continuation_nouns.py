"""Kept continuations as what a learner takes: trajectories with their advantages."""

from pydantic import TypeAdapter

from prover.client.documents import Continuations
from prover.trajectory import CreditedTrajectory, Trajectory, TrajectoryCredit, TurnCredit

_TRAJECTORY: TypeAdapter[Trajectory] = TypeAdapter(Trajectory)


def continuations_to_nouns(answer: Continuations) -> tuple[CreditedTrajectory, ...]:
    """Every continuation, with its advantage on each of its turns and sampled tokens.

    Their ids are unique within the analysis only ("before-0"). Raises ValidationError for another document.
    """
    return tuple(
        _credited(_TRAJECTORY.validate_python(one["trajectory"]), one["advantage"])
        for boundary in answer["boundaries"]
        for one in boundary["continuations"]
    )


def _credited(trajectory: Trajectory, advantage: float) -> CreditedTrajectory:
    turns = tuple(
        TurnCredit(
            advantage=advantage,
            token_advantages=None if turn.token_ids is None else (advantage,) * len(turn.token_ids),
        )
        for turn in trajectory.turns
    )
    credit = TrajectoryCredit(trajectory_id=trajectory.id, group_advantage=advantage, turns=turns)
    return CreditedTrajectory(trajectory=trajectory, credit=credit)
