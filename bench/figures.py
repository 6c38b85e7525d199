"""Figures that more than one benchmark reads or reports."""

import math
from collections.abc import Mapping, Sequence

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample


def samples_of(page: str) -> list[Sample]:
    """Every sample of a page in Prometheus' text format."""
    return [sample for family in text_string_to_metric_families(page) for sample in family.samples]


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of the values that at least `share` of them do not exceed (nearest rank).

    ValueError without values, and where `share` is not above 0 and at most 1.

    >>> percentile([5.0, 1.0, 3.0, 4.0], 0.5)
    3.0
    """
    if not values or not 0.0 < share <= 1.0:
        raise ValueError(f"percentile: was {len(values)} values and share {share}; expected values, and 0 < share <= 1")
    return sorted(values)[math.ceil(share * len(values)) - 1]


def efficiencies(rates: Mapping[int, float]) -> dict[int, float]:
    """What each number of workers does, as a share of that many times what one does.

    ValueError where the rate of one worker is not there, or not above 0.

    >>> efficiencies({1: 2.0, 4: 6.0})
    {1: 1.0, 4: 0.75}
    """
    one = rates.get(1, 0.0)
    if one <= 0.0:
        raise ValueError(f"rates: was {dict(rates)}; expected a rate above 0 of one worker")
    return {workers: rate / (workers * one) for workers, rate in rates.items()}
