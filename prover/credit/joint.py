"""What outcomes say of the two values of a segment together: a spike-and-slab posterior on a grid.

A segment that a judge names changes nothing, or gains, or decides, or harms; and many states are all but won or all but
lost. A joint prior of (V(before), V(after)) says both; docs/verification.md derives it. Rows are V(before), columns
V(after), by the midpoints of `CELLS` cells each.
"""

from dataclasses import dataclass, replace
from math import comb

import numpy as np
import numpy.typing as npt

from prover.credit.posterior import DeltaPosterior, central_interval
from prover.trajectory import BoundaryCount

CELLS = 40

Masses = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Beliefs:
    """The prior, before a single continuation. Chosen by simulation: `prover bench verification`.

    A gain is the fraction of what there was to gain, 1 - V(before); a harm the fraction of what there was to lose.

    Attributes:
        no_change: probability that a proposed segment changes nothing (the spike).
        harm: probability that it lowers the value; by any fraction alike. The rest raises it.
        decisive: of those that raise it, the share that leaves little to gain; of the others any fraction is as likely.
        decisive_shape: (a, b) of the Beta distribution of the fraction that a decisive segment gains.
        value_shape: the same of V(before), apart from what the group says.
        group_weight: how many samples of V(before) the group's success rate is worth, where the segment begins later
            than the group did.
    """

    no_change: float = 0.15
    harm: float = 0.3
    decisive: float = 0.2
    decisive_shape: tuple[float, float] = (12.0, 1.0)
    value_shape: tuple[float, float] = (0.15, 0.1)
    group_weight: float = 1.0

    def __post_init__(self) -> None:
        if not (self.no_change >= 0 and self.harm >= 0 and self.no_change + self.harm <= 1):
            raise ValueError(f"beliefs: no_change {self.no_change}, harm {self.harm}; expected shares of one")
        if not 0 <= self.decisive <= 1:
            raise ValueError(f"beliefs: decisive {self.decisive}; expected a share of one")


@dataclass(frozen=True, slots=True, kw_only=True)
class Joint:
    """A distribution of (V(before), V(after)): `masses` sums to 1.

    What is credited is the gain, max(0, V(after) - V(before)); of a `mistake` the loss, max(0, V(before) - V(after)).
    """

    masses: Masses
    mistake: bool = False

    @classmethod
    def prior(
        cls,
        beliefs: Beliefs,
        *,
        group_successes: int,
        group_size: int,
        begins_with_group: bool,
        mistake: bool = False,
    ) -> "Joint":
        """Before any continuation. A mistake is believed to lose as a segment of a success is believed to gain.

        Where all of the group passed through the state before the segment, the group's outcomes are samples of
        V(before) themselves. That only groups with few successes are verified does not make them unfair: the posterior
        is given their number, and whether the group was chosen follows from that number alone.
        """
        values = _midpoints()
        a, b = beliefs.value_shape
        weight = group_size if begins_with_group else beliefs.group_weight
        rate = group_successes / group_size
        a, b = a + weight * rate, b + weight * (1 - rate)
        before = values ** (a - 1) * (1 - values) ** (b - 1)
        masses = before[:, None] * _after_given_before(beliefs, mistake=mistake)
        return cls(masses=masses / masses.sum(), mistake=mistake)

    def given(self, before: BoundaryCount, after: BoundaryCount) -> "Joint":
        """The posterior after these outcomes."""
        masses = self.masses * _likelihood(before)[:, None] * _likelihood(after)[None, :]
        return replace(self, masses=masses / masses.sum())

    def delta(self, *, level: float = 0.9) -> DeltaPosterior:
        """Mean, central interval and sign of V(after) - V(before)."""
        steps = np.subtract.outer(np.arange(CELLS), np.arange(CELLS)).T + CELLS - 1
        by_step = np.zeros(2 * CELLS - 1)
        np.add.at(by_step, steps.ravel(), self.masses.ravel())
        points = (np.arange(2 * CELLS - 1) - (CELLS - 1)) / CELLS
        return DeltaPosterior(
            mean=float(by_step @ points),
            interval=central_interval(points, by_step, level=level),
            probability_positive=float(by_step[CELLS:].sum()),
        )

    def gain(self) -> tuple[float, float]:
        """Mean and variance of what is credited: the gain, or of a mistake the loss."""
        gains = _gains(mistake=self.mistake)
        mean = float((self.masses * gains).sum())
        return mean, float((self.masses * gains**2).sum()) - mean**2

    def probability_gain(self) -> float:
        """The probability that there is something to credit."""
        return float(self.masses[_gains(mistake=self.mistake) > 0.0].sum())

    def expected_variance(self, before: int, after: int) -> float:
        """What the variance of what is credited is expected to be after so many more continuations."""
        from_before, from_after = _outcomes(before), _outcomes(after)
        gains = _gains(mistake=self.mistake)
        weight = from_before @ self.masses @ from_after.T
        first = from_before @ (self.masses * gains) @ from_after.T
        second = from_before @ (self.masses * gains**2) @ from_after.T
        return float(second.sum() - (first**2 / np.maximum(weight, 1e-300)).sum())


def _midpoints() -> Masses:
    return (np.arange(CELLS) + 0.5) / CELLS


def _gains(*, mistake: bool) -> Masses:
    values = _midpoints()
    change = values[None, :] - values[:, None]
    return np.maximum(-change if mistake else change, 0.0)


def _after_given_before(beliefs: Beliefs, *, mistake: bool) -> Masses:
    """Each row sums to 1: the spike on the diagonal, what is credited on one side of it, the contrary on the other."""
    contrary = _above((1.0, 1.0))
    credited = (1.0 - beliefs.decisive) * contrary + beliefs.decisive * _above(beliefs.decisive_shape)
    above, below = (contrary, _turned(credited)) if mistake else (credited, _turned(contrary))
    change = 1.0 - beliefs.no_change - beliefs.harm
    up, down = (beliefs.harm, change) if mistake else (change, beliefs.harm)
    rows = beliefs.no_change * np.eye(CELLS) + up * above + down * below
    return rows / rows.sum(axis=1, keepdims=True)


def _above(shape: tuple[float, float]) -> Masses:
    """By row, V(after) above V(before): the fraction of what is left that is gained has this Beta distribution."""
    row, column = np.indices((CELLS, CELLS))
    above = column > row
    # The fraction means something above the diagonal only; elsewhere it is any number that has a logarithm.
    fractions = np.where(above, (column - row - 0.5) / np.maximum(CELLS - 1 - row, 1), 0.5)
    masses = np.where(above, fractions ** (shape[0] - 1) * (1 - fractions) ** (shape[1] - 1), 0.0)
    return masses / np.maximum(masses.sum(axis=1, keepdims=True), 1e-300)


def _turned(rows: Masses) -> Masses:
    """Losses for gains: 1 - V instead of V at both boundaries."""
    return rows[::-1, ::-1]


def _likelihood(count: BoundaryCount) -> Masses:
    values = _midpoints()
    log = count.successes * np.log(values) + (count.samples - count.successes) * np.log1p(-values)
    return np.exp(log - log.max())


def _outcomes(samples: int) -> Masses:
    """Binomial probability of each number of successes (rows) by value (columns)."""
    values = _midpoints()
    return np.array([comb(samples, k) * values**k * (1 - values) ** (samples - k) for k in range(samples + 1)])
