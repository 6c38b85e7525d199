"""Credit is arithmetic; these are the sums."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prover.credit.advantages import assign_credit, group_advantages, mistake_bonus, segment_bonus
from prover.trajectory import Group, Segment, Task, Trajectory, Turn

TASK = Task(environment="chain", task_id="0")


def trajectory(index: int, reward: float, tokens_per_turn: list[int]) -> Trajectory:
    turns = tuple(
        Turn(
            observation=f"room {number}",
            text="go",
            action="go",
            context_token_ids=(1, 2, 3),
            token_ids=tuple(range(count)),
            logprobs=(-0.5,) * count,
        )
        for number, count in enumerate(tokens_per_turn)
    )
    return Trajectory(id=f"t{index}", task=TASK, policy_version="v0", turns=turns, reward=reward, success=reward > 0.5)


@st.composite
def groups(draw: st.DrawFn) -> Group:
    size = draw(st.integers(2, 8))
    rewards = draw(st.lists(st.floats(0, 1), min_size=size, max_size=size))
    lengths = draw(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=6), min_size=size, max_size=size))
    members = tuple(trajectory(i, r, n) for i, (r, n) in enumerate(zip(rewards, lengths, strict=True)))
    return Group(task=TASK, policy_version="v0", trajectories=members)


@given(groups())
def test_every_sampled_token_gets_its_trajectorys_reward_less_the_mean(group: Group) -> None:
    mean = np.mean([member.reward for member in group.trajectories])
    for member, credit in zip(group.trajectories, assign_credit(group), strict=True):
        assert credit.trajectory_id == member.id
        assert credit.group_advantage == pytest.approx(member.reward - mean, abs=1e-12)
        for turn, turn_credit in zip(member.turns, credit.turns, strict=True):
            assert turn_credit.token_advantages == (turn_credit.advantage,) * len(turn.token_ids or ())
            assert turn_credit.advantage == pytest.approx(member.reward - mean, abs=1e-12)


@given(groups(), st.floats(-1, 0), st.floats(0, 20), st.data())
def test_a_delta_of_zero_or_less_changes_nothing(
    group: Group, delta: float, weight: float, data: st.DataObject
) -> None:
    chosen = data.draw(st.sampled_from(group.trajectories))
    turn = data.draw(st.integers(0, len(chosen.turns) - 1))
    segment = Segment(trajectory_id=chosen.id, first_turn=turn, last_turn=turn)
    assert assign_credit(group, bonuses={segment: segment_bonus(delta, weight=weight)}) == assign_credit(group)
    assert assign_credit(group, bonuses={segment: mistake_bonus(-delta, weight=weight)}) == assign_credit(group)


@given(groups(), st.floats(0, 2), st.data())
def test_the_bonus_moves_the_segments_turns_and_nothing_else(group: Group, bonus: float, data: st.DataObject) -> None:
    chosen = data.draw(st.sampled_from(group.trajectories))
    first = data.draw(st.integers(0, len(chosen.turns) - 1))
    last = data.draw(st.integers(first, len(chosen.turns) - 1))
    segment = Segment(trajectory_id=chosen.id, first_turn=first, last_turn=last)
    plain = assign_credit(group)
    paid = assign_credit(group, bonuses={segment: bonus})
    for before, after in zip(plain, paid, strict=True):
        for index, (was, is_now) in enumerate(zip(before.turns, after.turns, strict=True)):
            inside = before.trajectory_id == chosen.id and first <= index <= last
            assert is_now.advantage == was.advantage + (bonus if inside else 0.0)


@given(groups(), st.floats(-2, 2), st.booleans(), st.data())
def test_permuting_the_group_permutes_the_result(
    group: Group, bonus: float, normalise_std: bool, data: st.DataObject
) -> None:
    """All of it: every turn's and every token's advantage, with a segment and its bonus."""
    chosen = data.draw(st.sampled_from(group.trajectories))
    first = data.draw(st.integers(0, len(chosen.turns) - 1))
    last = data.draw(st.integers(first, len(chosen.turns) - 1))
    bonuses = {Segment(trajectory_id=chosen.id, first_turn=first, last_turn=last): bonus}
    order = data.draw(st.permutations(range(len(group.trajectories))))
    shuffled = replace(group, trajectories=tuple(group.trajectories[index] for index in order))
    credits = assign_credit(group, bonuses=bonuses, normalise_std=normalise_std)
    # The mean's last digit may depend on the order of its sum, and a tiny deviation magnifies it.
    rewards = [member.reward for member in group.trajectories]
    close = 1e-9 if not normalise_std or len(set(rewards)) == 1 else 1e-12 / max(float(np.std(rewards)), 1e-12) + 1e-9
    permuted = assign_credit(shuffled, bonuses=bonuses, normalise_std=normalise_std)
    for index, credit in zip(order, permuted, strict=True):
        expected = credits[index]
        assert credit.trajectory_id == expected.trajectory_id
        assert credit.group_advantage == pytest.approx(expected.group_advantage, abs=close)
        for turn, other in zip(credit.turns, expected.turns, strict=True):
            assert turn.advantage == pytest.approx(other.advantage, abs=close)
            assert turn.token_advantages == pytest.approx(other.token_advantages, abs=close)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=16))
def test_normalised_advantages_have_unit_deviation_or_are_all_zero(rewards: list[float]) -> None:
    advantages = group_advantages(rewards, normalise_std=True)
    if np.std(rewards) > 1e-6:
        assert np.std(advantages) == pytest.approx(1.0, rel=1e-6)
    if len(set(rewards)) == 1:
        assert np.allclose(advantages, 0.0, atol=1e-6)


@given(st.floats(-1, 1), st.floats(0, 10), st.floats(0, 10))
def test_the_weight_scales_the_bonus_alone(delta: float, weight: float, factor: float) -> None:
    assert segment_bonus(delta, weight=weight * factor) == pytest.approx(
        factor * segment_bonus(delta, weight=weight), rel=1e-9, abs=1e-12
    )
    assert segment_bonus(min(delta, 0.0), weight=weight) == 0.0


def test_a_segment_of_another_group_is_refused() -> None:
    group = Group(task=TASK, policy_version="v0", trajectories=(trajectory(0, 1.0, [1, 1]),))
    with pytest.raises(ValueError, match=r"segment\.trajectory_id: was 't9'"):
        assign_credit(group, bonuses={Segment(trajectory_id="t9", first_turn=0, last_turn=0): 1.0})
    with pytest.raises(ValueError, match=r"segment\.last_turn: was 2; expected less than 2"):
        assign_credit(group, bonuses={Segment(trajectory_id="t0", first_turn=0, last_turn=2): 1.0})


def test_turns_without_token_ids_have_an_advantage_of_their_own_only() -> None:
    turn = Turn(observation="room", text="go", action="go")
    member = Trajectory(id="t0", task=TASK, policy_version="v0", turns=(turn,), reward=1.0, success=True)
    (credit,) = assign_credit(Group(task=TASK, policy_version="v0", trajectories=(member,)))
    assert credit.turns[0].token_advantages is None
    assert credit.turns[0].advantage == 0.0
