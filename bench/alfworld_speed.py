"""Our ALFWorld engine beside the stock one: loads, steps and restores of the same games, in the same process.

A restore of the stock engine is a reset and a replay of the steps so far, since it has no snapshots; of ours it is the
snapshot's bytes read back. A step includes the observation text and the list of admissible commands on both sides.
"""

import json
import random
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from time import perf_counter

from bench.alfworld_stock import StockGame
from prover.environments.alfworld.engine import commands, play
from prover.environments.alfworld.game import Game, read_game
from prover.environments.alfworld.state import State, pack, unpack


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
    """Measures both engines on one game."""
    file = json.dumps(content)
    load_s = _seconds(lambda: read_game(json.loads(file)), times=20)
    game = read_game(content)
    rng = random.Random(name)
    started = perf_counter()
    stock = StockGame(content)
    stock.reset()
    stock_load_s = perf_counter() - started
    walk = _walk(game, rng, steps=effort.stock_steps)
    stock_step_s = _seconds(lambda: [stock.step(command) for command in walk], times=1) / len(walk)
    half = walk[: len(walk) // 2]
    stock_restore_s = _seconds(lambda: [stock.reset(), *map(stock.step, half)], times=1)
    state = _after(game, half)
    snapshot = pack(state)
    return Measurement(
        name=name,
        release=game.release,
        stock_load_s=stock_load_s,
        stock_step_s=stock_step_s,
        stock_restore_s=stock_restore_s,
        replayed=len(half),
        load_s=load_s,
        step_s=_own_step_s(game, rng, steps=effort.steps),
        snapshot_s=_seconds(lambda: pack(state), times=effort.steps),
        restore_s=_seconds(lambda: unpack(snapshot), times=effort.steps),
        forks=effort.forks,
        forks_mb=_forks_mb(game, rng, forks=effort.forks),
    )


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


def _after(game: Game, walk: Iterable[str]) -> State:
    state = game.start
    for command in walk:
        state = play(game, state, command).state
    return state


def _own_step_s(game: Game, rng: random.Random, *, steps: int) -> float:
    """Seconds a step: command, observation, goal, admissible commands. Choosing the command is inside, to our cost."""
    state, admissible = game.start, commands(game, game.start)
    started = perf_counter()
    for _ in range(steps):
        state = play(game, state, rng.choice(admissible)).state
        if game.won(state):
            state = game.start
        admissible = commands(game, state)
    return (perf_counter() - started) / steps


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
    started = perf_counter()
    for _ in range(times):
        act()
    return (perf_counter() - started) / times
