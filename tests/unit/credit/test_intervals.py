"""Intervals hold what was observed, and cover the truth as often as they say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prover.credit.intervals import newcombe_interval, wilson_interval

counts = st.integers(1, 40).flatmap(lambda samples: st.tuples(st.integers(0, samples), st.just(samples)))


@given(counts, counts)
def test_the_observed_difference_lies_inside(before: tuple[int, int], after: tuple[int, int]) -> None:
    low, high = newcombe_interval(before, after)
    delta = after[0] / after[1] - before[0] / before[1]
    assert -1.0 <= low <= delta + 1e-12 and delta - 1e-12 <= high <= 1.0


@given(counts, counts)
def test_swapping_the_sides_mirrors_the_interval(before: tuple[int, int], after: tuple[int, int]) -> None:
    low, high = newcombe_interval(before, after)
    assert newcombe_interval(after, before) == pytest.approx((-high, -low), abs=1e-12)


def test_the_difference_is_covered_at_the_stated_rate_with_eight_samples_a_side() -> None:
    rng = np.random.default_rng(0)
    truth = rng.random((4000, 2))
    seen = rng.binomial(8, truth)
    covered = 0
    for (value_before, value_after), (before, after) in zip(truth, seen, strict=True):
        low, high = newcombe_interval((int(before), 8), (int(after), 8))
        covered += low <= value_after - value_before <= high
    assert 0.88 <= covered / len(truth) <= 0.95


def test_no_samples_say_nothing() -> None:
    assert wilson_interval(0, 0) == (0.0, 1.0)
    assert newcombe_interval((0, 0), (3, 4)) == (-1.0, 1.0)
