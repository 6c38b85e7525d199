"""Which groups are verified, and from which trajectory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prover.credit.eligibility import anchor, eligible, ineligible_because
from tests.unit.judge.builders import group, trajectory


def test_one_to_three_successes_of_eight_are_eligible() -> None:
    assert [successes for successes in range(9) if eligible(successes, 8)] == [1, 2, 3]


def test_the_bound_is_three_eighths_rounded_down() -> None:
    most = {size: max(s for s in range(size + 1) if s == 0 or eligible(s, size)) for size in (2, 3, 4, 5, 6, 16)}
    assert most == {2: 0, 3: 1, 4: 1, 5: 1, 6: 2, 16: 6}


def test_a_wider_share_still_needs_a_failure() -> None:
    assert eligible(7, 8, max_share=1.0)
    assert not eligible(8, 8, max_share=1.0)


@given(total=st.integers(1, 64), data=st.data())
def test_every_refusal_names_the_count(total: int, data: st.DataObject) -> None:
    successes = data.draw(st.integers(0, total))
    why = ineligible_because(successes, total)
    assert eligible(successes, total) == (why is None)
    assert why is None or str(total) in why


@pytest.mark.parametrize(("successes", "total"), [(-1, 8), (9, 8), (0, 0)])
def test_impossible_counts_are_the_callers_mistake(successes: int, total: int) -> None:
    with pytest.raises(ValueError, match=f"was {successes} of {total}"):
        eligible(successes, total)


@pytest.mark.parametrize("share", [0.0, -1.0, 1.5, float("nan")])
def test_a_share_outside_its_range_is_named(share: float) -> None:
    with pytest.raises(ValueError, match="max_share"):
        eligible(1, 8, max_share=share)


def test_the_anchor_is_the_shortest_success_and_of_equals_the_first() -> None:
    longer, first, second = (
        trajectory("a", ["x", "y", "z"], success=True),
        trajectory("b", ["x", "y"], success=True),
        trajectory("c", ["y", "x"], success=True),
    )
    short_failure = trajectory("d", ["x"])
    assert anchor(group(short_failure, longer, first, second)) is first


def test_a_group_without_a_success_has_no_anchor() -> None:
    with pytest.raises(ValueError, match="none succeeded"):
        anchor(group(trajectory("a", ["x"])))
