"""The rules of verification: how many continuations, and what they are worth."""

from dataclasses import replace
from itertools import product
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prover.credit.modes import MODES, mode
from prover.credit.rules import Evidence, Fixed, Plan
from prover.trajectory import BoundaryCount


def evidence(before: tuple[int, int] = (0, 0), after: tuple[int, int] = (0, 0)) -> Evidence:
    return Evidence(
        before=BoundaryCount(successes=before[0], samples=before[1], tokens=10 * before[1]),
        after=BoundaryCount(successes=after[0], samples=after[1], tokens=10 * after[1]),
        group_successes=2,
        group_size=8,
    )


def test_fixed_asks_for_all_continuations_at_once_and_then_for_no_more() -> None:
    rule = Fixed()
    assert rule.plan(evidence(), samples=8) == Plan(before=8, after=8)
    assert rule.plan(evidence((3, 8), (7, 8)), samples=8) is None


def test_fixed_pays_the_raw_difference() -> None:
    verdict = Fixed().settle(evidence((2, 8), (6, 8)), samples=8, weight=1.0)
    assert verdict.delta == 0.5
    assert verdict.bonus == 0.5
    assert verdict.interval[0] < 0.5 < verdict.interval[1]
    assert verdict.probability_positive > 0.9


def test_a_loss_earns_nothing_and_is_reported() -> None:
    verdict = Fixed().settle(evidence((6, 8), (2, 8)), samples=8, weight=1.0)
    assert verdict.delta == -0.5
    assert verdict.bonus == 0.0


def test_frugal_takes_one_pair_whatever_it_may_take() -> None:
    rule = MODES["frugal"].rule
    assert rule.plan(evidence(), samples=8) == Plan(before=1, after=1)
    assert rule.plan(evidence((0, 1), (1, 1)), samples=8) is None
    assert rule.settle(evidence((0, 1), (1, 1)), samples=8, weight=3.0).bonus == 3.0


def test_no_outcome_is_not_a_failure() -> None:
    with pytest.raises(ValueError, match="expected at least one continuation"):
        Fixed().settle(evidence((0, 0), (1, 1)), samples=1, weight=1.0)


@pytest.mark.parametrize(("p_before", "p_after"), [(0.2, 0.7), (0.5, 0.5), (0.9, 0.1)])
def test_the_delta_of_fixed_is_unbiased(p_before: float, p_after: float) -> None:
    def chance(successes: int, p: float) -> float:
        return comb(3, successes) * p**successes * (1 - p) ** (3 - successes)

    mean = sum(
        chance(x, p_before) * chance(y, p_after) * Fixed().settle(evidence((x, 3), (y, 3)), samples=3, weight=1.0).delta
        for x, y in product(range(4), repeat=2)
    )
    assert mean == pytest.approx(p_after - p_before, abs=1e-12)


samples = st.integers(1, 8)


@pytest.mark.parametrize("name", sorted(MODES))
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_the_weight_scales_the_bonus_alone(name: str, data: st.DataObject) -> None:
    n, m = data.draw(samples), data.draw(samples)
    seen = evidence((data.draw(st.integers(0, n)), n), (data.draw(st.integers(0, m)), m))
    rule = MODES[name].rule
    one, three = rule.settle(seen, samples=8, weight=1.0), rule.settle(seen, samples=8, weight=3.0)
    assert three.bonus == pytest.approx(3 * one.bonus)
    assert (three.delta, three.interval, three.probability_positive) == (
        one.delta,
        one.interval,
        one.probability_positive,
    )


@pytest.mark.parametrize("name", sorted(MODES))
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_no_rule_exceeds_its_budget_and_every_rule_ends(name: str, data: st.DataObject) -> None:
    rule, most = MODES[name].rule, data.draw(st.integers(1, 12))
    before, after = (0, 0), (0, 0)
    for _ in range(2 * most + 1):
        plan = rule.plan(evidence(before, after), samples=most)
        if plan is None:
            return
        assert before[1] <= plan.before <= most
        assert after[1] <= plan.after <= most
        assert plan.before + plan.after > before[1] + after[1]
        before = (before[0] + data.draw(st.integers(0, plan.before - before[1])), plan.before)
        after = (after[0] + data.draw(st.integers(0, plan.after - after[1])), plan.after)
    pytest.fail("the rule asks for more for ever")


def test_an_unknown_mode_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="was 'guess'; expected one of"):
        mode("guess")


def test_audited_pays_the_record_whether_the_proposal_was_drawn_or_not() -> None:
    rule = MODES["audited"].rule
    spared = replace(evidence(), draw=0.9, record=(1.0, 1.0))
    assert rule.plan(spared, samples=1) is None
    assert rule.settle(spared, samples=1, weight=10.0).bonus == pytest.approx(10 * 2 / 10)
    drawn = replace(evidence((0, 1), (1, 1)), draw=0.1, record=(1.0, 1.0))
    assert rule.plan(replace(drawn, before=BoundaryCount(), after=BoundaryCount()), samples=1) == Plan(
        before=1, after=1
    )
    assert rule.settle(drawn, samples=1, weight=10.0).bonus == pytest.approx(10 * 3 / 11)


@pytest.mark.parametrize(("share", "drawn"), [(None, False), (0.5, True), (0.3, False), (1.0, True)])
def test_the_share_says_which_draws_are_audited(share: float | None, drawn: bool) -> None:
    chosen = mode("audited", audited_share=share)
    assert (chosen.rule.plan(replace(evidence(), draw=0.4), samples=1) is not None) == drawn
    assert chosen.keeps_record
    assert mode("adaptive", audited_share=share) == MODES["adaptive"]


def test_audited_credit_of_a_judge_that_does_harm_is_nothing() -> None:
    spared = replace(evidence(), draw=0.9, record=(-1.0, 0.0, -0.5))
    assert MODES["audited"].rule.settle(spared, samples=1, weight=10.0).bonus == 0.0
