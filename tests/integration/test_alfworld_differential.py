"""Our ALFWorld engine answers as the stock one does, letter for letter. The whole data: `python -m bench.alfworld`."""

import os
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("textworld", reason="the stock engine needs the extra 'stock'")

from alfworld_house import HOT_MUG_IN_CABINET, TWO_MUGS_ON_SIDETABLE, WATCH_BY_THE_LAMP, house

from bench.alfworld_differential import Assignment, Comparison, choose, compare_all
from bench.alfworld_games import games
from prover.environments.alfworld.generate import TASK_TYPES, Difficulty, generate
from prover.environments.alfworld.wording import RELEASES, Release

_SMALL = Difficulty(size="small", distractors=8, hidden=0.5, shared_places=0.3)


def _assignment(name: str, content: Mapping[str, object], *, walks: int = 1, remember: bool = True) -> Assignment:
    return Assignment(name=name, content=content, walks=walks, steps=50, seed=7, remember=remember)


def _agrees(comparison: Comparison) -> None:
    assert comparison.differences == ()
    assert comparison.solved
    assert 0 < comparison.accepted < comparison.steps


def _house(release: Release, goal: str) -> dict[str, object]:
    return house(release=release, goal=goal, facts="(inReceptacleObject Mug_bar_1 Box_bar_1) (isCool Apple_bar_1)")


_GENERATED = {
    f"{task_type}, {RELEASES[number % 2]}": generate(
        task_type, 1_000_100 + number, release=RELEASES[number % 2], difficulty=_SMALL
    )
    for number, task_type in enumerate(TASK_TYPES)
}
_HOUSES = {
    f"house {number}, {release}": _house(release, goal)
    for release, number, goal in (
        ("2021", 1, HOT_MUG_IN_CABINET),
        ("current", 1, WATCH_BY_THE_LAMP),
        ("current", 2, TWO_MUGS_ON_SIDETABLE),
    )
}


@pytest.fixture(scope="module")
def compared() -> dict[str, Comparison]:
    """Name -> comparison. All in one child process: half of the time goes into starting the stock engine."""
    assignments = [_assignment(name, content) for name, content in _GENERATED.items()]
    assignments += [
        replace(_assignment(name, content, walks=3), stock_planner=True) for name, content in _HOUSES.items()
    ]
    other_task = replace(_assignment("another task", house(), walks=0), ours=house(task="do something else."))
    return {comparison.name: comparison for comparison in compare_all([*assignments, other_task], processes=1)}


@pytest.mark.parametrize("name", _GENERATED)
def test_the_engines_agree_on_a_generated_game(compared: dict[str, Comparison], name: str) -> None:
    _agrees(compared[name])


@pytest.mark.parametrize("name", _HOUSES)
def test_the_engines_agree_in_a_house_with_every_oddity(compared: dict[str, Comparison], name: str) -> None:
    _agrees(compared[name])


def test_a_difference_is_found_and_told(compared: dict[str, Comparison]) -> None:
    difference = compared["another task"].differences[0]
    assert (difference.walk, difference.step, difference.field) == ("walkthrough", 0, "observation")
    assert difference.ours.endswith("Your task is to: do something else.")
    assert difference.stock.endswith("Your task is to: do it.")


@pytest.mark.slow
def test_a_stock_engine_that_remembers_answers_as_one_that_does_not() -> None:
    content = house()
    plain, remembering = compare_all(
        [_assignment("house", content, remember=remember) for remember in (False, True)], processes=1
    )
    assert plain == remembering
    _agrees(plain)


def test_walks_give_possible_impossible_and_malformed_commands() -> None:
    admissible = ["go to desk 1", "go to desk 2", "look", "take mug 1 from desk 1"]
    rng = random.Random(0)
    given = {choose(rng, admissible, ["heat mug 1 with fridge 1"]) for _ in range(500)}
    assert set(admissible) < given
    for kind in ("heat mug 1 with fridge 1", "TAKE MUG 1 FROM DESK 1", "go  to  desk  1", "xyzzy"):
        assert kind in given
    assert any(command != command.strip() and command.strip() in admissible for command in given)


@pytest.mark.slow
def test_the_engines_agree_on_real_games_in_either_release() -> None:
    # Not only named: the alfworld package names an empty folder when it is imported.
    if not any(Path(os.environ.get("ALFWORLD_DATA", "/nonexistent")).rglob("game.tw-pddl")):
        pytest.skip("expected $ALFWORLD_DATA to hold json_2.1.1")
    sample = games(data_dir=Path(os.environ["ALFWORLD_DATA"]), count=10, first_seed=3)
    for comparison in compare_all([_assignment(name, content, walks=5) for name, content in sample], processes=1):
        _agrees(comparison)
