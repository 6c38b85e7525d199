"""A household of eight places, small enough to train in seconds: the world of the studies in docs/verification.md.

An object is hidden in one place. The agent goes about, finds it, takes it, treats it where the task asks for that, and
puts it where it belongs. Thousands of episodes are stepped at once; everything below is an array with one row an
episode (N).

Actions: 0-7 go to that place, 8 take, 9 clean, 10 heat, 11 put. An action that does not fit changes nothing.
"""

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

PLACES = 8
SINK = 7
TAKE, CLEAN, HEAT, PUT = 8, 9, 10, 11
ACTIONS = 12
KINDS = 5

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.floating]


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """Which tasks a study draws, and how long an episode may be.

    Kinds: 0 object in sight, put; 1 search, put; 2 search, clean at the one sink, put; 3 search, heat, put; 4 search,
    clean at a place that has to be found, heat, put.
    """

    kinds: tuple[int, ...]
    max_turns: int


HOUSEHOLD = Study(kinds=(1,), max_turns=20)
UNEQUAL = Study(kinds=(0, 1, 2, 3, 4), max_turns=25)


@dataclass(frozen=True, slots=True, kw_only=True)
class Worlds:
    """N episodes: the task's own arrays first, then what changes. Every array has shape (N,), `searched` (N, 8)."""

    kind: Ints
    hidden: Ints
    target: Ints
    sink: Ints
    stove: Ints
    place: Ints
    searched: Bools
    holding: Bools
    clean: Bools
    hot: Bools
    turn: Ints
    success: Bools

    def take(self, rows: Ints) -> "Worlds":
        """Those rows, in that order; a row may be taken many times. This is the fork."""
        return Worlds(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    def __len__(self) -> int:
        return len(self.kind)


def draw(study: Study, tasks: int, rng: np.random.Generator) -> Worlds:
    """`tasks` fresh episodes of tasks drawn at random."""
    kind = rng.choice(np.array(study.kinds), size=tasks)
    places = np.argsort(rng.random((tasks, PLACES)), axis=1)
    places[kind == 2] = _with_third(places[kind == 2], SINK)
    start = rng.integers(0, PLACES, size=tasks)
    hidden = np.where(kind == 0, start, places[:, 0])
    target = np.where(kind == 0, (start + 1 + rng.integers(0, PLACES - 1, size=tasks)) % PLACES, places[:, 1])
    searched = np.zeros((tasks, PLACES), dtype=np.bool_)
    searched[np.arange(tasks), start] = True
    nothing = np.zeros(tasks, dtype=np.bool_)
    return Worlds(
        kind=kind,
        hidden=hidden,
        target=target,
        sink=places[:, 2],
        stove=places[:, 3],
        place=start,
        searched=searched,
        holding=nothing,
        clean=nothing,
        hot=nothing,
        turn=np.zeros(tasks, dtype=np.int64),
        success=nothing,
    )


def _with_third(places: Ints, third: int) -> Ints:
    """Permutations (N, PLACES) in which `third` has changed places with what stood at index 2."""
    changed = np.where(places == third, places[:, 2:3], places)
    changed[:, 2] = third
    return changed


def step(worlds: Worlds, actions: Ints) -> tuple[Worlds, Bools]:
    """Every episode's next state, and which actions were accepted. Episodes that succeeded must be left out."""
    here = worlds.place
    goes = actions < PLACES
    moves = goes & (actions != here)
    takes = (actions == TAKE) & ~worlds.holding & (here == worlds.hidden)
    cleans = (actions == CLEAN) & worlds.holding & (here == worlds.sink)
    heats = (actions == HEAT) & worlds.holding & (here == worlds.stove)
    ready = needs_clean(worlds.kind) <= worlds.clean
    ready &= needs_hot(worlds.kind) <= worlds.hot
    puts = (actions == PUT) & worlds.holding & (here == worlds.target) & ready
    place = np.where(moves, actions, here)
    searched = worlds.searched.copy()
    searched[np.arange(len(worlds)), place] = True
    after = replace(
        worlds,
        place=place,
        searched=searched,
        holding=worlds.holding | takes,
        clean=worlds.clean | cleans,
        hot=worlds.hot | heats,
        turn=worlds.turn + 1,
        success=puts,
    )
    return after, moves | takes | cleans | heats | puts


def needs_clean(kind: Ints) -> Bools:
    """Whether the task asks for a clean object."""
    return (kind == 2) | (kind == 4)


def needs_hot(kind: Ints) -> Bools:
    """Whether the task asks for a hot object."""
    return (kind == 3) | (kind == 4)


FEATURES = 6 * PLACES + KINDS + 7


def features(worlds: Worlds) -> NDArray[np.float32]:
    """What the policy may know, shape (N, FEATURES): nothing of a place that has not been searched.

    Sink and stove are shown as long as they are wanted.
    """
    rows = np.arange(len(worlds))
    seen_object = worlds.searched[rows, worlds.hidden] & ~worlds.holding
    sink_known = (worlds.kind != 4) | worlds.searched[rows, worlds.sink]
    hot_wanted = needs_hot(worlds.kind)
    x = np.zeros((len(worlds), FEATURES), dtype=np.float32)
    x[rows, worlds.place] = 1.0
    x[rows, PLACES + worlds.target] = 1.0
    x[rows, 2 * PLACES + worlds.hidden] = seen_object
    x[rows, 3 * PLACES + worlds.sink] = sink_known & needs_clean(worlds.kind) & ~worlds.clean
    x[rows, 4 * PLACES + worlds.stove] = hot_wanted & ~worlds.hot
    x[:, 5 * PLACES : 6 * PLACES] = worlds.searched
    x[rows, 6 * PLACES + worlds.kind] = 1.0
    flags = x[:, 6 * PLACES + KINDS :]
    flags[:, 0] = worlds.holding
    flags[:, 1] = worlds.clean
    flags[:, 2] = worlds.hot
    flags[:, 3] = seen_object & (worlds.place == worlds.hidden)
    flags[:, 4] = worlds.place == worlds.target
    flags[:, 5] = (worlds.place == worlds.sink) & sink_known
    flags[:, 6] = (worlds.place == worlds.stove) & hot_wanted
    return x
