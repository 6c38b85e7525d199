"""The nouns cannot be wrong: every one of them checks itself and says what it expected."""

import pytest

from prover.lifecycle import END_STATES, MOVES, IllegalMove, Status, check_move
from prover.trajectory import Ending, Group, Segment, Task, Trajectory, Turn

TASK = Task(environment="alfworld", task_id="generated/pick_and_place_simple/1")
TURN = Turn(observation="You see a desk 1.", text=" look", action="look")


def member(name: str, *, task: Task = TASK, version: str = "v0") -> Trajectory:
    return Trajectory(id=name, task=task, policy_version=version, turns=(TURN,), reward=0.0, success=False)


def test_log_probabilities_need_a_token_each() -> None:
    with pytest.raises(ValueError, match="logprobs: 1 values for 2 token_ids; expected one for each"):
        Turn(observation="", text="", action=None, token_ids=(1, 2), logprobs=(-0.1,))
    with pytest.raises(ValueError, match="logprobs: 1 values for no token_ids"):
        Turn(observation="", text="", action=None, logprobs=(-0.1,))


def test_an_id_may_stand_once_in_a_group() -> None:
    with pytest.raises(ValueError, match=r"trajectories\[1\]\.id: 't0' stands twice"):
        Group(task=TASK, policy_version="v0", trajectories=(member("t0"), member("t0")))


def test_a_group_is_of_one_task_and_one_version() -> None:
    other = Task(environment="alfworld", task_id="generated/pick_and_place_simple/2")
    with pytest.raises(ValueError, match=r"trajectories\[1\]\.task"):
        Group(task=TASK, policy_version="v0", trajectories=(member("t0"), member("t1", task=other)))
    with pytest.raises(ValueError, match=r"trajectories\[0\]\.policy_version: was 'v1'; expected 'v0'"):
        Group(task=TASK, policy_version="v0", trajectories=(member("t0", version="v1"),))


def test_a_step_limit_is_never_a_success() -> None:
    with pytest.raises(ValueError, match="success: was true with ending 'step_limit'"):
        Trajectory(
            id="t0",
            task=TASK,
            policy_version="v0",
            turns=(TURN,),
            reward=1.0,
            success=True,
            ending=Ending.STEP_LIMIT,
        )


def test_the_boundaries_of_a_segment_are_before_its_first_turn_and_after_its_last() -> None:
    segment = Segment(trajectory_id="t0", first_turn=3, last_turn=4)
    assert (segment.before.turn, segment.after.turn, len(segment)) == (3, 5, 2)


def test_end_states_are_final_and_every_other_state_can_reach_one() -> None:
    for status, following in MOVES.items():
        assert (status in END_STATES) == (not following)
        if following:
            assert {Status.CANCELLED, Status.FAILED} <= following
    with pytest.raises(IllegalMove, match="done may not become proposing"):
        check_move(Status.DONE, Status.PROPOSING)
