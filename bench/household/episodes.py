"""Playing many episodes at once, and what is kept of them."""

from dataclasses import dataclass

import numpy as np

from bench.household.policy import Network
from bench.household.world import Bools, Floats, Ints, Study, Worlds, features, step


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """N episodes, padded to the longest (T turns). `states[t]` holds every episode's world before turn t.

    `length` counts turns (N,); `x` (N, T, FEATURES), `actions` (N, T), `valid` (N, T) mean something up to there.
    """

    x: Floats
    actions: Ints
    valid: Bools
    length: Ints
    success: Bools
    states: tuple[Worlds, ...]

    @property
    def tokens(self) -> int:
        """Generated tokens: one a turn."""
        return int(self.length.sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How N episodes ended: turns played (N,), whether they succeeded (N,)."""

    length: Ints
    success: Bools

    @property
    def tokens(self) -> int:
        """Generated tokens: one a turn."""
        return int(self.length.sum())


def finish(network: Network, worlds: Worlds, study: Study, rng: np.random.Generator) -> Ended:
    """Plays every episode to its end as `play` does, and keeps nothing of it. Episodes that succeeded stay so."""
    length = np.zeros(len(worlds), dtype=np.int64)
    success = worlds.success.copy()
    live = np.flatnonzero(~success & (worlds.turn < study.max_turns))
    current = worlds.take(live)
    while len(live):
        current, _ = step(current, network.sample(features(current), rng))
        length[live] += 1
        success[live] = current.success
        going = np.flatnonzero(~current.success & (current.turn < study.max_turns))
        if len(going) < len(live):
            live, current = live[going], current.take(going)
    return Ended(length=length, success=success)


def play(network: Network, worlds: Worlds, study: Study, rng: np.random.Generator) -> Played:
    """Plays every episode to its end; the step limit counts turns that are already used."""
    count, limit = len(worlds), study.max_turns
    xs: list[Floats] = []
    actions: list[Ints] = []
    valid: list[Bools] = []
    states: list[Worlds] = []
    length = np.zeros(count, dtype=np.int64)
    success = np.zeros(count, dtype=np.bool_)
    live = np.flatnonzero(worlds.turn < limit)
    current = worlds
    while len(live):
        chosen_x = features(current.take(live))
        chosen = network.sample(chosen_x, rng)
        after, accepted = step(current.take(live), chosen)
        states.append(current)
        xs.append(_scatter(chosen_x, live, count))
        actions.append(_scatter(chosen, live, count))
        valid.append(_scatter(accepted, live, count))
        length[live] += 1
        success[live] = after.success
        current = _put(current, live, after)
        live = live[~after.success & (after.turn < limit)]
    empty = np.zeros((count, 0))
    return Played(
        x=np.stack(xs, axis=1) if xs else empty[:, :, None],
        actions=np.stack(actions, axis=1) if actions else empty.astype(np.int64),
        valid=np.stack(valid, axis=1) if valid else empty.astype(np.bool_),
        length=length,
        success=success,
        states=(*states, current),
    )


def _scatter(values: np.ndarray, rows: Ints, count: int) -> np.ndarray:
    spread = np.zeros((count, *values.shape[1:]), dtype=values.dtype)
    spread[rows] = values
    return spread


def _put(worlds: Worlds, rows: Ints, after: Worlds) -> Worlds:
    changed = {}
    for name in ("place", "searched", "holding", "clean", "hot", "turn", "success"):
        column = getattr(worlds, name).copy()
        column[rows] = getattr(after, name)
        changed[name] = column
    constant = {name: getattr(worlds, name) for name in ("kind", "hidden", "target", "sink", "stove")}
    return Worlds(**constant, **changed)
