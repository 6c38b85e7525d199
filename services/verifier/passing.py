"""Which trajectories of a group passed through the very state of a boundary: their outcomes come free.

docs/verification.md, "Free evidence", says when those outcomes are samples of the boundary, and when they are not.
"""

from prover.trajectory import Boundary, Group, Trajectory, Turn


def passed_through(group: Group, boundary: Boundary) -> tuple[Trajectory, ...]:
    """The trajectories that stood where the boundary's own stood before that turn, its own among them.

    The same state of agent and environment: the same turns up to there, word for word and token for token, and the same
    observation, context and digest at it. One that had ended by then did not pass. KeyError for another group's
    boundary, ValueError for a turn that its trajectory does not have.
    """
    own, turn = group.trajectory(boundary.trajectory_id), boundary.turn
    if turn >= len(own.turns):
        raise ValueError(f"boundary.turn: was {turn}; expected less than {len(own.turns)}, the turns of {own.id!r}")
    way = _way(own, turn)
    return tuple(member for member in group.trajectories if len(member.turns) > turn and _way(member, turn) == way)


def all_passed_through(group: Group, boundary: Boundary) -> bool:
    """Whether the whole group was still together at the boundary, as it is at turn 0."""
    return len(passed_through(group, boundary)) == len(group.trajectories)


def _way(trajectory: Trajectory, turn: int) -> tuple[object, ...]:
    before, here = trajectory.turns[:turn], trajectory.turns[turn]
    return (*((_read(one), one.text, one.action, one.token_ids) for one in before), _read(here))


def _read(turn: Turn) -> tuple[object, ...]:
    return turn.observation, turn.context_token_ids, turn.digest
