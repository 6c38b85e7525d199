"""What a segment is paid whose continuations show no difference: nothing, and in one mode nothing in the long run."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prover.credit.modes import MODES
from prover.credit.rules import Evidence
from prover.trajectory import BoundaryCount


def equal_rates(successes: int, samples: int, *, times: int = 1, group_successes: int = 2) -> Evidence:
    """The same rate at both boundaries, of `times` as many samples after as before."""
    return Evidence(
        before=BoundaryCount(successes=successes, samples=samples),
        after=BoundaryCount(successes=times * successes, samples=times * samples),
        group_successes=group_successes,
        group_size=8,
    )


def paid(mode: str, evidence: Evidence) -> float:
    return MODES[mode].rule.settle(evidence, samples=1024, weight=MODES[mode].weight).bonus


counts = st.integers(1, 64).flatmap(lambda samples: st.tuples(st.integers(0, samples), st.just(samples)))


def test_every_mode_is_held_to_it() -> None:
    assert set(MODES) == {"fixed", "frugal", "audited", "adaptive"}


@pytest.mark.parametrize("mode", ["fixed", "frugal"])
@given(count=counts, times=st.integers(1, 4), mistake=st.booleans())
def test_no_difference_of_the_raw_rates_pays_exactly_nothing(
    mode: str, count: tuple[int, int], times: int, mistake: bool
) -> None:
    assert paid(mode, replace(equal_rates(*count, times=times), mistake=mistake)) == 0.0


@given(count=counts, audits=st.integers(0, 64), draw=st.floats(0, 1, exclude_max=True))
def test_a_record_of_zeros_pays_exactly_nothing(count: tuple[int, int], audits: int, draw: float) -> None:
    assert paid("audited", replace(equal_rates(*count), draw=draw, record=(0.0,) * audits)) == 0.0


@pytest.mark.parametrize("mistake", [False, True])
@pytest.mark.parametrize("group_successes", [1, 2, 3])
@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_adaptive_pays_less_and_less_for_no_difference_and_in_the_end_exactly_nothing(
    quarters: int, group_successes: int, mistake: bool
) -> None:
    """2 of 4 against 2 of 4 does not say that nothing changed; 32 of 64 against 32 of 64 all but does."""
    bonuses = [
        abs(
            paid(
                "adaptive",
                replace(equal_rates(quarters * n, 4 * n, group_successes=group_successes), mistake=mistake),
            )
        )
        for n in (1, 2, 4, 8, 16, 64)
    ]
    assert bonuses == sorted(bonuses, reverse=True)
    assert bonuses[0] < 0.15
    assert bonuses[-2:] == [0.0, 0.0]
