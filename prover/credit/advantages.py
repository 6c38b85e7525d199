"""Group advantages and the segment bonus (Jung et al., arXiv 2609.36178)."""

from collections.abc import Mapping, Sequence
from itertools import combinations

from prover.credit.segments import overlap
from prover.trajectory import Group, Segment, Trajectory, TrajectoryCredit, TurnCredit


def group_advantages(rewards: Sequence[float], *, normalise_std: bool = False) -> list[float]:
    """GRPO's advantages: A_i = R_i - mean_j(R_j), the same for every policy token of trajectory i.

    With `normalise_std` they are divided by the population standard deviation, as verl and TRL do by default; where
    all rewards are equal that deviation is 0 and so is every advantage.

    >>> group_advantages([1.0, 0.0, 0.0, 0.0])
    [0.75, -0.25, -0.25, -0.25]
    >>> group_advantages([1.0, 0.0], normalise_std=True)
    [1.0, -1.0]
    >>> group_advantages([1.0, 1.0], normalise_std=True)
    [0.0, 0.0]
    """
    if not rewards:
        raise ValueError("rewards: was empty; expected one for each trajectory")
    mean = sum(rewards) / len(rewards)
    centred = [reward - mean for reward in rewards]
    if not normalise_std:
        return centred
    if max(rewards) == min(rewards):
        return [0.0] * len(rewards)  # rounding of the mean must not become a deviation
    deviation = (sum(value * value for value in centred) / len(centred)) ** 0.5
    return [value / deviation if deviation > 0.0 else 0.0 for value in centred]


def segment_bonus(delta: float, *, weight: float = 1.0) -> float:
    """The credit rule: weight * delta where delta > 0, else nothing. `weight` is the paper's lambda.

    >>> segment_bonus(0.25)
    0.25
    >>> segment_bonus(-0.25)
    0.0
    """
    return weight * max(delta, 0.0)


def mistake_bonus(delta: float, *, weight: float = 1.0) -> float:
    """The same for a segment of a failed trajectory, where credit is signed: weight * delta where delta < 0. Ours.

    >>> mistake_bonus(-0.25)
    -0.25
    >>> mistake_bonus(0.25)
    0.0
    """
    return weight * min(delta, 0.0)


def assign_credit(
    group: Group, *, bonuses: Mapping[Segment, float] | None = None, normalise_std: bool = False
) -> tuple[TrajectoryCredit, ...]:
    """The advantages of every turn: the group's, plus its segment's bonus on each sampled token of a segment's turns.

    Only sampled tokens carry advantages; observation, system, tool and template tokens have none to carry. In the
    order of `group.trajectories`. Raises ValueError where a segment is not one of the group's, and where two of them
    share a turn: its tokens would be paid twice.
    """
    paid = bonuses or {}
    for segment in paid:
        _check_segment(group, segment)
    for one, other in combinations(paid, 2):
        if overlap(one, other):
            raise ValueError(f"segments: {one} and {other} share a turn; expected segments that share none")
    rewards = [trajectory.reward for trajectory in group.trajectories]
    advantages = group_advantages(rewards, normalise_std=normalise_std)
    return tuple(
        _trajectory_credit(trajectory, advantage, paid)
        for trajectory, advantage in zip(group.trajectories, advantages, strict=True)
    )


def _trajectory_credit(trajectory: Trajectory, advantage: float, bonuses: Mapping[Segment, float]) -> TrajectoryCredit:
    by_turn = {
        index: bonus
        for segment, bonus in bonuses.items()
        if segment.trajectory_id == trajectory.id
        for index in range(segment.first_turn, segment.last_turn + 1)
    }
    turns: list[TurnCredit] = []
    for index, turn in enumerate(trajectory.turns):
        value = advantage + by_turn.get(index, 0.0)
        tokens = None if turn.token_ids is None else (value,) * len(turn.token_ids)
        turns.append(TurnCredit(advantage=value, token_advantages=tokens))
    return TrajectoryCredit(trajectory_id=trajectory.id, group_advantage=advantage, turns=tuple(turns))


def _check_segment(group: Group, segment: Segment) -> None:
    known = {trajectory.id: len(trajectory.turns) for trajectory in group.trajectories}
    if segment.trajectory_id not in known:
        raise ValueError(f"segment.trajectory_id: was {segment.trajectory_id!r}; expected one of {sorted(known)}")
    if segment.last_turn >= known[segment.trajectory_id]:
        raise ValueError(
            f"segment.last_turn: was {segment.last_turn}; expected less than {known[segment.trajectory_id]}, "
            f"the number of turns of {segment.trajectory_id!r}"
        )
