"""The world whose values are known."""

import pytest

from prover.environments import make
from prover.environments.chain import COMMANDS, ChainEnvironment, right_door, value
from prover.trajectory import Task

TASK = Task(environment="chain", task_id="5/1,3", seed=7)


def walk(environment: ChainEnvironment, rooms: int) -> None:
    for room in range(rooms):
        environment.step(f"open {right_door(TASK.seed, room)} door")


def test_the_right_doors_lead_out() -> None:
    environment = ChainEnvironment()
    environment.reset(TASK)
    walk(environment, 4)
    step = environment.step("open red door")
    assert (step.done, step.success, step.reward) == (True, True, 1.0)
    with pytest.raises(RuntimeError, match="after the end"):
        environment.step("open red door")


def test_the_wrong_door_of_a_pivotal_room_is_the_end() -> None:
    environment = ChainEnvironment()
    environment.reset(TASK)
    walk(environment, 1)
    wrong = next(command for command in COMMANDS if right_door(TASK.seed, 1) not in command)
    step = environment.step(wrong)
    assert (step.done, step.success, step.reward) == (True, False, 0.0)


def test_nonsense_is_answered_and_changes_nothing() -> None:
    environment = ChainEnvironment()
    environment.reset(TASK)
    before = environment.digest()
    step = environment.step("sing")
    assert not step.valid
    assert environment.digest() == before


def test_a_snapshot_goes_on_elsewhere_where_it_was() -> None:
    one, other = ChainEnvironment(), ChainEnvironment()
    one.reset(TASK)
    walk(one, 2)
    other.restore(one.snapshot())
    assert other.digest() == one.digest()
    assert other.step("open red door") == one.step("open red door")


def test_values_multiply_over_the_pivots_ahead() -> None:
    assert value(TASK, 0, lambda room: 0.5) == 0.25
    assert value(TASK, 2, lambda room: 0.5) == 0.5
    assert value(TASK, 4, lambda room: 0.5) == 1.0


@pytest.mark.parametrize("task_id", ["5", "5/9", "x/1", "0/", "../../etc"])
def test_a_malformed_task_is_named(task_id: str) -> None:
    with pytest.raises(ValueError, match="task_id"):
        make("chain").reset(Task(environment="chain", task_id=task_id))
