"""Bayes on a grid, against closed forms."""

from math import exp, lgamma

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prover.credit.posterior import beta_masses, central_interval, independent_delta, midpoints

counts = st.integers(0, 12).flatmap(lambda samples: st.tuples(st.integers(0, samples), st.just(samples)))


def log_beta(x: int, y: int) -> float:
    return lgamma(x) + lgamma(y) - lgamma(x + y)


def exceeds(before: tuple[int, int], after: tuple[int, int]) -> float:
    """P(q > p), q and p independent Beta variables with whole parameters: the classical finite sum."""
    a, b = 1 + before[0], 1 + before[1] - before[0]
    c, d = 1 + after[0], 1 + after[1] - after[0]
    return sum(exp(log_beta(a + i, b + d) - log_beta(1 + i, d) - log_beta(a, b)) / (d + i) for i in range(c))


@settings(deadline=None, max_examples=50)
@given(before=counts, after=counts)
def test_the_probability_of_a_gain_is_the_closed_form(before: tuple[int, int], after: tuple[int, int]) -> None:
    posterior = independent_delta(before, after)
    assert posterior.probability_positive == pytest.approx(exceeds(before, after), abs=1e-4)


@settings(deadline=None, max_examples=50)
@given(before=counts, after=counts)
def test_the_mean_is_the_difference_of_the_beta_means(before: tuple[int, int], after: tuple[int, int]) -> None:
    expected = (after[0] + 1) / (after[1] + 2) - (before[0] + 1) / (before[1] + 2)
    assert independent_delta(before, after).mean == pytest.approx(expected, abs=1e-4)


@settings(deadline=None, max_examples=50)
@given(before=counts, after=counts)
def test_swapping_the_boundaries_mirrors_the_posterior(before: tuple[int, int], after: tuple[int, int]) -> None:
    forward, backward = independent_delta(before, after), independent_delta(after, before)
    assert forward.mean == pytest.approx(-backward.mean, abs=1e-9)
    assert forward.interval == pytest.approx((-backward.interval[1], -backward.interval[0]), abs=1e-9)
    assert forward.probability_positive == pytest.approx(1 - backward.probability_positive, abs=1e-9)


def test_the_interval_of_uniform_values_is_that_of_the_triangular_distribution() -> None:
    low, high = independent_delta((0, 0), (0, 0), level=0.9).interval
    edge = 1 - 0.1**0.5  # P(|delta| > x) = (1 - x)^2
    assert (low, high) == pytest.approx((-edge, edge), abs=2e-3)


def test_a_value_that_is_all_but_known_has_a_narrow_interval() -> None:
    low, high = central_interval(midpoints(), beta_masses(500, 500), level=0.9)
    assert 0.47 < low < 0.5 < high < 0.53


@pytest.mark.parametrize("count", [(-1, 2), (3, -1)])
def test_impossible_counts_are_refused(count: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="expected 0 or more"):
        beta_masses(*count)
