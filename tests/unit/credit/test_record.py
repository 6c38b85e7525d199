"""The judge's record: what audits say of a judge, and how sure that is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prover.credit.record import audited_bonus, mean_interval, no_better_than_chance, record_delta

DELTA = st.floats(-1.0, 1.0)


@given(deltas=st.lists(DELTA, max_size=80))
def test_the_record_lies_between_nothing_and_the_mean_of_its_window(deltas: list[float]) -> None:
    recent = deltas[-64:]
    mean = sum(recent) / len(recent) if recent else 0.0
    record = record_delta(deltas)
    assert min(0.0, mean) - 1e-12 <= record <= max(0.0, mean) + 1e-12
    assert audited_bonus(deltas, weight=10.0) == pytest.approx(10.0 * max(0.0, record))


@given(deltas=st.lists(DELTA, min_size=1, max_size=64))
def test_the_interval_of_the_mean_stays_within_what_a_delta_can_be_and_mirrors(deltas: list[float]) -> None:
    low, high = mean_interval(deltas)
    assert -1.0 <= low < high <= 1.0
    assert mean_interval([-delta for delta in deltas]) == pytest.approx((-high, -low))


@pytest.mark.parametrize(("p_before", "p_after"), [(0.5, 0.5), (0.1, 0.1), (0.25, 0.5), (0.1, 0.6), (0.9, 0.95)])
@pytest.mark.parametrize("audits", [16, 64])
def test_the_interval_of_the_mean_covers_at_its_rate(p_before: float, p_after: float, audits: int) -> None:
    random = np.random.default_rng(audits)
    shape = (4000, audits)
    deltas = (random.random(shape) < p_after).astype(float) - (random.random(shape) < p_before)
    covered = 0
    for row in deltas:
        low, high = mean_interval(row.tolist())
        covered += low <= p_after - p_before <= high
    assert covered / 4000 > 0.9 - 0.02


@pytest.mark.parametrize(
    ("p_before", "p_after", "least", "most"),
    [(0.35, 0.40, 0.75, 0.92), (0.35, 0.35, 0.92, 0.98), (0.35, 0.61, 0.03, 0.12), (0.35, 0.75, 0.0, 0.01)],
    ids=["what a random segment gains on ALFWorld", "nothing", "what contrast gains there", "more"],
)
def test_chance_is_told_from_judges_by_a_full_window(
    p_before: float, p_after: float, least: float, most: float
) -> None:
    random = np.random.default_rng(7)
    shape = (2000, 64)
    deltas = (random.random(shape) < p_after).astype(float) - (random.random(shape) < p_before)
    called = [no_better_than_chance(row.tolist()) for row in deltas]
    assert least <= float(np.mean(called)) <= most
    assert not no_better_than_chance([-1.0] * 15)
