"""Generated games: reproducible, solvable, in the official format, never shared between training and test."""

import hashlib
import json
import subprocess
import sys

import pytest

from prover.environments.alfworld import AlfworldEnvironment
from prover.environments.alfworld.generate import (
    TASK_TYPES,
    TEST_SEEDS,
    TRAIN_SEEDS,
    Difficulty,
    generate,
    release_texts,
)
from prover.environments.alfworld.rooms import OPENABLE, SIZES
from prover.trajectory import Task

_HARD = Difficulty(size="large", distractors=30, hidden=1.0, shared_places=0.5)


def _walkthrough(game: dict[str, object]) -> list[str]:
    commands = game["walkthrough"]
    assert isinstance(commands, list)
    return [str(command) for command in commands]


def _receptacles(game: dict[str, object]) -> int:
    return str(game["pddl_problem"]).count("(receptacleAtLocation ") - str(game["pddl_problem"]).count("?r ?l")


@pytest.mark.parametrize("release", ["2021", "current"])
@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_a_walkthrough_solves_its_game(task_type: str, release: str) -> None:
    for seed in range(6):
        for difficulty in ({}, {"size": "large", "distractors": 30, "hidden": 1.0, "shared_places": 0.5}):
            task = Task(
                environment="alfworld",
                task_id=f"generated/{task_type}/{seed}",
                options={"release": release, "difficulty": difficulty},
            )
            environment = AlfworldEnvironment()
            environment.reset(task)
            game = generate(task_type, seed, release=release, difficulty=Difficulty(**difficulty))  # type: ignore
            steps = [environment.step(command) for command in _walkthrough(game)]
            assert all(step.valid for step in steps)
            assert [step.success for step in steps] == [False] * (len(steps) - 1) + [True]


@pytest.mark.slow
@pytest.mark.parametrize("release", ["2021", "current"])
@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_the_stock_engine_plays_a_generated_game(task_type: str, release: str) -> None:
    pytest.importorskip("textworld", reason="the stock engine needs the extra 'stock'")
    from prover.environments.alfworld.stock import StockAlfworld

    task = Task(environment="alfworld", task_id=f"generated/{task_type}/77", options={"release": release})
    stock, ours = StockAlfworld(), AlfworldEnvironment()
    assert stock.reset(task) == ours.reset(task)
    for command in _walkthrough(generate(task_type, 77, release=release)):  # type: ignore
        assert stock.admissible() == ours.admissible()
        assert stock.step(command) == ours.step(command)


def test_a_game_is_the_same_in_every_process() -> None:
    script = (
        "import hashlib, json; from prover.environments.alfworld.generate import generate;"
        "print(hashlib.sha256(json.dumps(generate('pick_two_obj_and_place', 5)).encode()).hexdigest())"
    )
    there = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()
    assert there == hashlib.sha256(json.dumps(generate("pick_two_obj_and_place", 5)).encode()).hexdigest()


def test_training_and_test_share_no_seed() -> None:
    assert set(TRAIN_SEEDS).isdisjoint(TEST_SEEDS)


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_different_seeds_are_different_rooms(task_type: str) -> None:
    seeds = [*TRAIN_SEEDS[:20], *TEST_SEEDS[:20]]
    environment = AlfworldEnvironment()
    rooms: set[str] = set()
    for seed in seeds:
        # Compared by what a player could find out: the first text, and how the shortest solution reads.
        first = environment.reset(Task(environment="alfworld", task_id=f"generated/{task_type}/{seed}")).text
        rooms.add(first + "\n".join(_walkthrough(generate(task_type, seed))))
    assert len(rooms) > 0.95 * len(seeds)


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_the_releases_differ_in_words_not_in_rooms(task_type: str) -> None:
    old, new = generate(task_type, 9, release="2021"), generate(task_type, 9, release="current")
    assert old["pddl_problem"] == new["pddl_problem"]
    assert old["pddl_domain"] != new["pddl_domain"]
    assert [command.replace(" in/on ", " to ").replace("put ", "move ") for command in _walkthrough(old)] == (
        _walkthrough(new)
    )


def test_a_larger_size_has_more_furniture() -> None:
    means = [
        sum(
            _receptacles(generate("pick_and_place_simple", seed, difficulty=Difficulty(size=size)))
            for seed in range(20)
        )
        for size in SIZES
    ]
    assert means == sorted(means)
    assert means[0] * 2 < means[2]


def test_hidden_things_have_to_be_found_behind_doors() -> None:
    def opened(hidden: float) -> int:
        games = [generate("pick_heat_then_place_in_recep", s, difficulty=Difficulty(hidden=hidden)) for s in range(40)]
        return sum(command.startswith("open ") for game in games for command in _walkthrough(game))

    assert opened(0.0) < opened(1.0)
    assert "Microwave" in OPENABLE


def test_distractors_are_added_one_by_one() -> None:
    def things(distractors: int) -> int:
        game = generate("pick_and_place_simple", 4, difficulty=Difficulty(distractors=distractors))
        return str(game["pddl_problem"]).count("(inReceptacle ") - str(game["pddl_problem"]).count("(inReceptacle ?")

    assert [things(count) - things(0) for count in (1, 7, 20)] == [1, 7, 20]


def test_a_game_file_has_the_keys_of_the_official_format() -> None:
    game = json.loads(json.dumps(generate("look_at_obj_in_light", 3, difficulty=_HARD)))
    assert list(game) == ["pddl_domain", "grammar", "pddl_problem", "solvable", "walkthrough"]
    assert game["solvable"] is True
    assert "UNKNOWN GOAL" not in game["grammar"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task_type": "pick_nothing", "seed": 1}, "task_type: was 'pick_nothing'; expected one of"),
        ({"task_type": TASK_TYPES[0], "seed": -1}, "seed: was -1; expected 0 or more"),
        ({"task_type": TASK_TYPES[0], "seed": 1, "release": "2020"}, "release: was '2020'; expected one of 2021"),
    ],
)
def test_unknown_games_are_refused_by_name(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        generate(**arguments)  # type: ignore


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"size": "huge"}, "difficulty.size: was 'huge'"),
        ({"distractors": -1}, "difficulty.distractors: was -1"),
        ({"hidden": 1.5}, "difficulty.hidden: was 1.5"),
    ],
)
def test_an_impossible_difficulty_is_refused(knobs: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Difficulty(**knobs)  # type: ignore


def test_the_current_texts_are_those_of_the_alfworld_package() -> None:
    alfworld = pytest.importorskip("alfworld", reason="the comparison needs the extra 'stock'")
    from importlib.resources import files

    data = files(alfworld) / "data"
    assert release_texts("current") == (
        (data / "alfred.pddl").read_text("utf-8"),
        (data / "alfred.twl2").read_text("utf-8"),
    )
