"""The experts: plans that are as short as can be, and a searcher that goes by the texts alone."""

import os
import random
import re
from collections import deque
from pathlib import Path

import pytest

from prover.environments.alfworld import AlfworldEnvironment
from prover.environments.alfworld.expert import Searcher, explore, plan, plan_from
from prover.environments.alfworld.expert_memory import Goal, read_goal
from prover.environments.alfworld.game import read_game
from prover.environments.alfworld.generate import TASK_TYPES, generate
from prover.trajectory import Task

_RELEASES = ("2021", "current")


def _data() -> Path:
    root = Path(os.environ.get("ALFWORLD_DATA", "/nonexistent"))
    return root / "json_2.1.1" if (root / "json_2.1.1").is_dir() else root


def _real_games() -> list[str]:
    """The task ids of the official games that are at hand."""
    return sorted(str(path.parent.relative_to(_data())) for path in _data().rglob("game.tw-pddl"))


_needs_real_games = pytest.mark.skipif(not _real_games(), reason="needs the official games: set ALFWORLD_DATA")


def _task(task_type: str, seed: int, release: str, **difficulty: object) -> Task:
    options = {"release": release, "difficulty": difficulty}
    return Task(environment="alfworld", task_id=f"generated/{task_type}/{seed}", options=options)


def _shortest(task: Task, limit: int) -> int:
    """The length of the shortest solution, found by trying everything: breadth first over the engine's states."""
    environment = AlfworldEnvironment()
    environment.reset(task)
    frontier, known = deque([(environment.snapshot(), 0)]), {environment.digest()}
    while frontier:
        state, depth = frontier.popleft()
        environment.restore(state)
        for command in environment.admissible():
            environment.restore(state)
            if environment.step(command).success:
                return depth + 1
            if depth + 1 < limit and environment.digest() not in known:
                known.add(environment.digest())
                frontier.append((environment.snapshot(), depth + 1))
    raise AssertionError(f"no solution of {limit} steps")


@pytest.mark.parametrize("task_type", ["pick_and_place_simple", "look_at_obj_in_light"])
def test_no_solution_is_shorter_than_the_plan(task_type: str) -> None:
    lengths = {seed: len(plan(generate(task_type, seed))) for seed in range(8)}
    short = {seed: length for seed, length in lengths.items() if length <= 5}
    assert short
    assert {seed: _shortest(_task(task_type, seed, "current"), length) for seed, length in short.items()} == short


@_needs_real_games
@pytest.mark.parametrize("release", _RELEASES)
def test_plans_solve_every_real_game_within_50_steps(release: str) -> None:
    environment = AlfworldEnvironment(data_dir=_data())
    lengths: list[int] = []
    for task_id in _real_games():
        task = Task(environment="alfworld", task_id=task_id, options={"release": release})
        environment.reset(task)
        commands = plan_from(environment.game, environment.state)
        steps = [environment.step(command) for command in commands]
        assert [step.success for step in steps] == [False] * (len(steps) - 1) + [True], task.task_id
        lengths.append(len(commands))
    assert max(lengths) <= 50


@_needs_real_games
def test_the_searcher_solves_nearly_every_real_game() -> None:
    environment = AlfworldEnvironment(data_dir=_data())
    games = _real_games()[::4]
    solved = 0
    for task_id in games:
        for release in _RELEASES:
            task = Task(environment="alfworld", task_id=task_id, options={"release": release})
            solved += explore(environment, task).success
    assert solved >= 0.95 * 2 * len(games)


@pytest.mark.parametrize("release", _RELEASES)
@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_the_searcher_solves_generated_games_from_their_texts(task_type: str, release: str) -> None:
    environment = AlfworldEnvironment()
    played = [
        explore(environment, _task(task_type, seed, release, shared_places=0.4, hidden=0.6), seed=seed)
        for seed in range(25)
    ]
    assert all(demonstration.success for demonstration in played)
    assert sum(len(demonstration.commands) for demonstration in played) < 20 * len(played)


def test_equal_seeds_search_alike_and_other_seeds_search_elsewhere() -> None:
    task = _task("pick_clean_then_place_in_recep", 3, "current", size="large", hidden=1.0)
    environment = AlfworldEnvironment()
    assert explore(environment, task, seed=1) == explore(environment, task, seed=1)
    assert len({explore(environment, task, seed=seed).commands for seed in range(8)}) > 1


def test_the_searcher_helps_in_the_middle_of_somebody_elses_game() -> None:
    environment = AlfworldEnvironment()
    task = _task("pick_heat_then_place_in_recep", 1, "current")
    first = environment.reset(task).text
    searcher = Searcher(first, seed=0)
    places = [command for command in environment.admissible() if command.startswith("go to ")]
    for command in (*places, "help", "nonsense", "go to nowhere 1", "inventory", "look"):
        searcher.observe(command, environment.step(command).observation)
    for _ in range(30):
        command = searcher.next_command()
        step = environment.step(command)
        searcher.observe(command, step.observation)
        if step.done:
            break
    assert step.success


def test_the_searcher_puts_a_thing_down_that_the_task_does_not_ask_for() -> None:
    environment = AlfworldEnvironment()
    task = _task("pick_and_place_simple", 0, "2021")
    searcher = Searcher(environment.reset(task).text)
    wanted = read_goal(environment.reset(task).text).thing
    for command in [command for command in environment.admissible() if command.startswith("go to ")]:
        searcher.observe(command, environment.step(command).observation)
        others = [c for c in environment.admissible() if re.match(r"take \w+", c) and c.split()[1] != wanted]
        if others:
            searcher.observe(others[0], environment.step(others[0]).observation)
            break
    command = searcher.next_command()
    assert command.startswith(f"put {' '.join(others[0].split()[1:3])} in/on")
    assert environment.step(command).valid


def test_the_searcher_remembers_what_it_saw_on_the_way() -> None:
    text = "You are in a room. Looking quickly around you, you see a bed 1, a desk 1, and a drawer 1.\n\n"
    searcher = Searcher(text + "Your task is to: find two pen and put them in drawer.")
    searcher.observe("go to bed 1", "You arrive at bed 1. On the bed 1, you see a pen 2, and a pen 1.")
    assert searcher.next_command() == "take pen 2 from bed 1"
    searcher.observe("take pen 2 from bed 1", "You pick up the pen 2 from the bed 1.")
    assert searcher.next_command() == "go to drawer 1"
    searcher.observe("go to drawer 1", "You arrive at drawer 1. The drawer 1 is closed.")
    assert searcher.next_command() == "open drawer 1"
    searcher.observe("open drawer 1", "You open the drawer 1. The drawer 1 is open. In it, you see nothing.")
    assert searcher.next_command() == "move pen 2 to drawer 1"
    searcher.observe("move pen 2 to drawer 1", "You move the pen 2 to the drawer 1.")
    assert searcher.next_command() == "go to bed 1"


def test_two_receptacles_at_one_place_are_looked_into_without_walking() -> None:
    text = "You are in a room. Looking quickly around you, you see a drawer 2, and a drawer 1.\n\n"
    searcher = Searcher(text + "Your task is to: put a pen in desk.")
    searcher.observe("go to drawer 2", "You arrive at drawer 2. The drawer 2 is closed.")
    searcher.observe("open drawer 2", "You open the drawer 2. The drawer 2 is open. In it, you see nothing.")
    assert searcher.next_command() == "go to drawer 1"
    searcher.observe("go to drawer 1", "Nothing happens.")
    assert searcher.next_command() == "examine drawer 1"
    searcher.observe("examine drawer 1", "The drawer 1 is closed.")
    assert searcher.next_command() == "open drawer 1"


@pytest.mark.parametrize(
    ("sentence", "goal"),
    [
        ("put a mug in shelf.", Goal(thing="mug", target="shelf")),
        ("put some mug on shelf.", Goal(thing="mug", target="shelf")),
        ("put a hot mug in coffeemachine.", Goal(thing="mug", target="coffeemachine", treatment="heat")),
        ("heat some mug and put it in coffeemachine.", Goal(thing="mug", target="coffeemachine", treatment="heat")),
        ("put a cool pan in diningtable.", Goal(thing="pan", target="diningtable", treatment="cool")),
        ("clean some pan and put it in fridge.", Goal(thing="pan", target="fridge", treatment="clean")),
        ("put two cd in safe.", Goal(thing="cd", target="safe", count=2)),
        ("find two cd and put them in safe.", Goal(thing="cd", target="safe", count=2)),
        ("look at bowl under the desklamp.", Goal(thing="bowl", target="desklamp", light=True)),
        ("examine the bowl with the desklamp.", Goal(thing="bowl", target="desklamp", light=True)),
    ],
)
def test_a_task_is_understood_in_each_of_its_wordings(sentence: str, goal: Goal) -> None:
    assert read_goal(f"You see a shelf 1.\n\nYour task is to: {sentence}") == goal


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_the_sentence_and_the_formal_goal_say_the_same(task_type: str) -> None:
    done = {"clean": ("clean",), "heat": ("hot",), "cool": ("cool",), None: ()}
    for seed in range(20):
        game = read_game(generate(task_type, seed))
        goal, wanted = read_goal(game.task), game.wanted
        assert (goal.thing + "type", goal.count) == (wanted.object_type, wanted.count)
        assert goal.target + "type" == (wanted.lamp_type if goal.light else wanted.receptacle_type)
        assert done[goal.treatment] == wanted.done


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_a_plan_can_be_made_from_any_state(task_type: str) -> None:
    environment = AlfworldEnvironment()
    rng = random.Random(task_type)
    for seed in range(15):
        environment.reset(_task(task_type, seed, rng.choice(_RELEASES)))
        for _ in range(25):
            if environment.step(rng.choice(environment.admissible())).success:
                break
        commands = plan_from(environment.game, environment.state)
        steps = [environment.step(command) for command in commands]
        assert all(step.valid for step in steps)
        assert environment.game.won(environment.state)


def test_each_command_of_a_plan_is_one_step_nearer() -> None:
    environment = AlfworldEnvironment()
    for task_type in TASK_TYPES:
        environment.reset(_task(task_type, 2, "current"))
        commands = plan_from(environment.game, environment.state)
        left: list[int] = []
        for command in commands:
            environment.step(command)
            left.append(len(plan_from(environment.game, environment.state)))
        assert left == list(reversed(range(len(commands))))


def test_a_task_in_other_words_is_refused() -> None:
    with pytest.raises(ValueError, match="task: was 'make me a sandwich'; expected one of ALFWorld's wordings"):
        Searcher("You see a shelf 1.\n\nYour task is to: make me a sandwich")


def test_an_unsolvable_game_has_no_plan() -> None:
    game = generate("pick_heat_then_place_in_recep", 2)
    game["pddl_problem"] = re.sub(r"\(receptacleType \w+ MicrowaveType\)", "", str(game["pddl_problem"]))
    with pytest.raises(ValueError, match="nothing leads to"):
        plan(game)
