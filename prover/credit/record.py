"""Audited credit: pay every proposal by the judge's verified record, and verify only a share of the proposals.

Our own rule, from the household studies (docs/verification.md): in training it is the judge that wants verifying, not
every proposal. A judge whose audited segments do not turn out better earns nothing.
"""

from collections.abc import Sequence


def record_delta(deltas: Sequence[float], *, window: int = 64, pseudo_observations: float = 8.0) -> float:
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


def audited_bonus(deltas: Sequence[float], *, weight: float = 10.0, window: int = 64) -> float:
    """What every proposal of the judge earns: weight * record, nothing while the record is not positive.

    Unbiased for the judge's mean delta up to the shrinkage, provided that audited proposals are drawn at random,
    whatever they look like. The proposal's own audit weighs no more than any other in the window.
    """
    return weight * max(0.0, record_delta(deltas, window=window))
