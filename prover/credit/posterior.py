"""What outcomes say of a difference of success probabilities, when both are unknown: Bayes on a grid.

The unit interval is cut into `CELLS` cells of equal width; a density is the vector of their masses. That is exact
enough for everything here (errors below 1e-4) and needs nothing but numpy.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

CELLS = 400
"""Cells of the unit interval; their midpoints are (i + 1/2) / CELLS."""

Masses = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaPosterior:
    """The posterior of delta = V(after) - V(before).

    Attributes:
        mean: posterior mean of delta.
        interval: central credible interval.
        probability_positive: P(delta > 0).
    """

    mean: float
    interval: tuple[float, float]
    probability_positive: float


def beta_masses(successes: int, failures: int) -> Masses:
    """The Beta(1 + successes, 1 + failures) posterior of a success probability whose prior is uniform, by cell.

    >>> round(float(beta_masses(3, 1) @ midpoints()), 4)  # (3 + 1) / (4 + 2)
    0.6667
    """
    if successes < 0 or failures < 0:
        raise ValueError(f"counts: were {successes} successes and {failures} failures; expected 0 or more of each")
    points = midpoints()
    log_density = successes * np.log(points) + failures * np.log1p(-points)
    masses = np.exp(log_density - log_density.max())
    return masses / masses.sum()


def midpoints() -> Masses:
    """The midpoint of each cell."""
    return (np.arange(CELLS) + 0.5) / CELLS


def independent_delta(before: tuple[int, int], after: tuple[int, int], *, level: float = 0.9) -> DeltaPosterior:
    """The posterior of delta from (successes, samples) at each boundary, uniform and independent priors.

    It takes nothing for granted and borrows nothing from the group: what a reader may check by hand.

    >>> nothing = independent_delta((0, 0), (0, 0))
    >>> abs(round(nothing.mean, 6)), round(nothing.probability_positive, 6)
    (0.0, 0.5)
    """
    masses_before = beta_masses(before[0], before[1] - before[0])
    masses_after = beta_masses(after[0], after[1] - after[0])
    # Entry k is the mass of delta = (k - (CELLS - 1)) / CELLS.
    masses = np.convolve(masses_after, masses_before[::-1])
    points = (np.arange(2 * CELLS - 1) - (CELLS - 1)) / CELLS
    return DeltaPosterior(
        mean=float(masses @ points),
        interval=central_interval(points, masses, level=level),
        probability_positive=float(masses[CELLS:].sum() + 0.5 * masses[CELLS - 1]),
    )


def central_interval(points: Masses, masses: Masses, *, level: float) -> tuple[float, float]:
    """The interval that leaves (1 - level) / 2 of the mass on either side. `points` ascend; `masses` sum to 1."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"level: was {level}; expected a share between 0 and 1")
    # Half of a cell's mass lies on either side of its midpoint.
    cumulative = np.cumsum(masses) - 0.5 * masses
    tail = (1.0 - level) / 2.0
    low, high = np.interp([tail, 1.0 - tail], cumulative, points)
    return float(low), float(high)
