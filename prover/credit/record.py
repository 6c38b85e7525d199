"""Audited credit: pay every proposal by the judge's verified record, and verify only a share of the proposals.

Our own rule, from the household studies (docs/verification.md): in training it is the judge that wants verifying, not
every proposal. A judge whose audited segments do not turn out better earns nothing.
"""

from collections.abc import Sequence
from math import sqrt

from prover.credit.intervals import Z_90

WINDOW = 64
"""Audits that count."""

_FEW = 16
"""Audits before anything is said of a judge."""


def record_delta(deltas: Sequence[float], *, window: int = WINDOW, pseudo_observations: float = 8.0) -> float:
    """The judge's verified record: mean of its last `window` audited deltas, shrunk towards zero.

    `pseudo_observations` deltas of zero stand beside the real ones, so that a short record pays little and a record
    without audits pays nothing. Old audits leave the window since the policy, and with it what is pivotal, moves on.

    >>> record_delta([])
    0.0
    >>> record_delta([0.5] * 8)
    0.25
    >>> record_delta([1.0] * 64 + [0.0] * 64)
    0.0
    """
    recent = deltas[-window:]
    return sum(recent) / (len(recent) + pseudo_observations) if recent else 0.0


def audited_bonus(deltas: Sequence[float], *, weight: float = 10.0, window: int = WINDOW, shift: float = 0.0) -> float:
    """What every proposal of the judge earns: weight * record, nothing while the record is not positive.

    `shift` is what the record of proposals like this one is above the whole (`prover.credit.features`); an empty record
    pays nothing whatever it is.

    Unbiased for the judge's mean delta up to the shrinkage, provided that audited proposals are drawn at random,
    whatever they look like. The proposal's own audit weighs no more than any other in the window.
    """
    return weight * min(1.0, max(0.0, record_delta(deltas, window=window) + shift)) if deltas else 0.0


def mean_interval(deltas: Sequence[float], *, z: float = Z_90) -> tuple[float, float]:
    """Interval of the judge's mean delta, 90% by default: Agresti and Min (Statistics in Medicine 24, 2005) for pairs.

    Half an observation joins each of the four outcomes that a pair of continuations can have; they add 2 to the number
    of deltas, nothing to their sum and 1 to the sum of their squares. At K = 1 it keeps its level from 16 audits on;
    at larger K, and where hardly any delta differs from 0, it is too wide rather than too narrow.

    >>> mean_interval([])
    (-1.0, 1.0)
    >>> [round(bound, 3) for bound in mean_interval([1.0, 0.0] * 8)]
    [0.231, 0.658]
    """
    if not deltas:
        return -1.0, 1.0
    number = len(deltas) + 2
    mean = sum(deltas) / number
    variance = (sum(delta * delta for delta in deltas) + 1.0) / number - mean * mean
    half = z * sqrt(variance / number)
    return max(-1.0, mean - half), min(1.0, mean + half)


def no_better_than_chance(deltas: Sequence[float]) -> bool:
    """Whether the audits of a judge leave it open that its segments change nothing.

    A segment drawn at random gains a little too, since the anchor succeeded: a mean above 0 is no sign of a good judge.
    So a full window must have its whole 90% interval above 0; from 16 audits on, a mean of 0 or less is enough.
    The alert of deploy/prometheus says the same, and compares with the judge `random` where that has a record.

    >>> no_better_than_chance([0.0] * 15), no_better_than_chance([0.0] * 16)
    (False, True)
    >>> no_better_than_chance([1.0, 0.0, 0.0, 0.0] * 16), no_better_than_chance([1.0, 1.0, 1.0, 0.0, -1.0, -1.0] * 11)
    (False, True)
    """
    recent = deltas[-WINDOW:]
    if len(recent) < WINDOW:
        return len(recent) >= _FEW and sum(recent) <= 0.0
    return mean_interval(recent)[0] <= 0.0
