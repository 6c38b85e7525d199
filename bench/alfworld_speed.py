"""Our ALFWorld engine beside the stock one: loads, steps and restores of the same games, in the same process.

A restore of the stock engine is a reset and a replay of the steps so far, since it has no snapshots; of ours it is the
snapshot's bytes read back. A step includes the observation text and the list of admissible commands on both sides.
Times are processor time, so that other work on the machine counts less; both sides use one core and never wait.
"""

import json
import random
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

from bench.alfworld_stock import StockGame
from prover.environments.alfworld import AlfworldEnvironment
from prover.environments.alfworld.engine import commands, play
from prover.environments.alfworld.game import Game, read_game
from prover.environments.alfworld.library import GAME_FILE
from prover.trajectory import Task

_TASK = Task(environment="alfworld", task_id="measured")


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """One game. Times in seconds for one load (with the first reset), one step, one snapshot, one restore.

    Attributes:
        replayed: how many steps the stock engine replays in a restore.
        forks_mb: memory of `forks` distinct states of ours, in MB.
    """

    name: str
    release: str
    stock_load_s: float
    stock_step_s: float
    stock_restore_s: float
    replayed: int
    load_s: float
    step_s: float
    snapshot_s: float
    restore_s: float
    forks: int
    forks_mb: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Effort:
    """How much to measure: steps of the stock engine (its restore replays half of them), steps and forks of ours."""

    stock_steps: int = 30
    steps: int = 5_000
    forks: int = 10_000


def measure_all(games: Iterable[tuple[str, Mapping[str, object]]], *, effort: Effort) -> Iterator[Measurement]:
    """Measures games one after the other, each in a fresh child process (the stock engine leaks memory)."""
    for name, content in games:
        with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
            yield pool.submit(measure, name, content, effort=effort).result()


def measure(name: str, content: Mapping[str, object], *, effort: Effort) -> Measurement:
    """Measures both engines on one game. Ours through the environment that everybody uses."""
    rng = random.Random(name)
    game = read_game(content)
    walk = _walk(game, rng, steps=effort.stock_steps)
    half = walk[: len(walk) // 2]
    started = process_time()
    stock = StockGame(content)
    stock.reset()
    stock_load_s = process_time() - started
    stock_step_s = _seconds(lambda: [stock.step(command) for command in walk], times=1) / len(walk)
    stock_restore_s = _seconds(lambda: [stock.reset(), *map(stock.step, half)], times=1)
    ours = _environment(content)
    beginning = ours.snapshot()
    step_s = _own_step_s(ours, rng, steps=effort.steps)
    ours.restore(beginning)
    for command in half:
        ours.step(command)
    snapshot = ours.snapshot()
    file = json.dumps(content)
    return Measurement(
        name=name,
        release=game.release,
        stock_load_s=stock_load_s,
        stock_step_s=stock_step_s,
        stock_restore_s=stock_restore_s,
        replayed=len(half),
        load_s=_seconds(lambda: read_game(json.loads(file)), times=20),
        step_s=step_s,
        snapshot_s=_seconds(ours.snapshot, times=effort.steps),
        restore_s=_seconds(lambda: ours.restore(snapshot), times=effort.steps),
        forks=effort.forks,
        forks_mb=_forks_mb(game, rng, forks=effort.forks),
    )


def _environment(content: Mapping[str, object]) -> AlfworldEnvironment:
    """Our environment with this one game in play."""
    with TemporaryDirectory() as folder:
        (Path(folder) / _TASK.task_id).mkdir()
        (Path(folder) / _TASK.task_id / GAME_FILE).write_text(json.dumps(content))
        environment = AlfworldEnvironment(data_dir=folder)
        environment.reset(_TASK)
    return environment


def _walk(game: Game, rng: random.Random, *, steps: int) -> list[str]:
    """Admissible commands that do not win."""
    state, walk = game.start, list[str]()
    while len(walk) < steps:
        command = rng.choice(commands(game, state))
        after = play(game, state, command).state
        if not game.won(after):
            walk.append(command)
            state = after
    return walk


def _own_step_s(environment: AlfworldEnvironment, rng: random.Random, *, steps: int) -> float:
    """Seconds a step: command, observation, goal, admissible commands. Choosing the command is inside, to our cost."""
    beginning, admissible = environment.snapshot(), environment.admissible()
    started = process_time()
    for _ in range(steps):
        if environment.step(rng.choice(admissible)).done:
            environment.restore(beginning)
        admissible = environment.admissible()
    return (process_time() - started) / steps


def _forks_mb(game: Game, rng: random.Random, *, forks: int) -> float:
    """Memory of states that are each one random step further than another one, in MB."""
    tracemalloc.start()
    states = [game.start]
    for _ in range(forks):
        state = rng.choice(states[-100:])
        states.append(play(game, state, rng.choice(commands(game, state))).state)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return used / 1e6


def _seconds(act: Callable[[], object], *, times: int) -> float:
    """Mean seconds of one call."""
    started = process_time()
    for _ in range(times):
        act()
    return (process_time() - started) / times
