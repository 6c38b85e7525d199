"""The stock engine behind our interface: the same tasks and options as our own engine, the same answers."""

import os
import random
from pathlib import Path

import pytest

from prover.environments import make
from prover.trajectory import Task

pytest.importorskip("textworld", reason="the stock engine needs the extra 'stock'")
pytestmark = pytest.mark.slow


def _real_games() -> list[str]:
    root = Path(os.environ.get("ALFWORLD_DATA", "/nonexistent"))
    root = root / "json_2.1.1" if (root / "json_2.1.1").is_dir() else root
    return sorted(str(path.parent.relative_to(root)) for path in root.rglob("game.tw-pddl"))


@pytest.mark.skipif(not _real_games(), reason="needs the official games: set ALFWORLD_DATA")
@pytest.mark.parametrize("release", ["2021", "current"])
def test_a_real_game_is_the_same_through_both_engines_in_either_wording(release: str) -> None:
    rng = random.Random(release)
    task = Task(environment="alfworld", task_id=rng.choice(_real_games()), options={"release": release})
    stock, ours = make("alfworld-stock"), make("alfworld")
    assert stock.reset(task) == ours.reset(task)
    for _ in range(6):
        commands = stock.admissible()
        assert commands == ours.admissible()
        command = rng.choice([*(commands or []), " look ", "LOOK", "sing"])
        assert stock.step(command) == ours.step(command)


@pytest.mark.parametrize(
    ("task_id", "options", "message"),
    [
        ("generated/pick_nothing/1", {}, "expected one of pick_and_place_simple"),
        ("generated/pick_two_obj_and_place/one", {}, "SEED a whole number"),
        ("generated/pick_two_obj_and_place/1", {"release": "2020"}, "release: was '2020'"),
        ("generated/pick_two_obj_and_place/1", {"difficulty": {"hid": 1}}, "unexpected keyword argument 'hid'"),
        ("generated/pick_two_obj_and_place/1", {"wording": "old"}, "wording: expected release or difficulty"),
    ],
)
def test_a_task_that_does_not_exist_is_refused_by_name(task_id: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make("alfworld-stock").reset(Task(environment="alfworld-stock", task_id=task_id, options=options))
