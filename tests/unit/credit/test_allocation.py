"""Several segments in one analysis: shared boundaries, a budget, and what each is paid."""

from dataclasses import replace
from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prover.boundaries import SIDE, boundaries, sides
from prover.credit.adaptive import Adaptive
from prover.credit.allocation import Weighed, next_round, settle_all
from prover.credit.joint import CELLS, Beliefs, Joint
from prover.credit.modes import MODES
from prover.credit.rules import Evidence, Fixed
from prover.trajectory import Boundary, BoundaryCount, Segment

Counts = dict[str, tuple[int, int]]
"""(successes, samples) by boundary."""

MEETING = (("before", "after"), ("after", "after-2"))
"""The second segment begins where the first one ends."""
APART = (("before", "after"), ("before-2", "after-2"), ("before-3", "after-3"))


def weighed(
    counts: Counts, named: tuple[tuple[str, str], ...], *, mistakes: frozenset[int] = frozenset()
) -> list[Weighed]:
    def count(side: str) -> BoundaryCount:
        successes, samples = counts.get(side, (0, 0))
        return BoundaryCount(successes=successes, samples=samples)

    return [
        Weighed(
            before=before,
            after=after,
            evidence=Evidence(
                before=count(before), after=count(after), group_successes=2, group_size=8, mistake=number in mistakes
            ),
        )
        for number, (before, after) in enumerate(named)
    ]


def test_segments_that_meet_share_a_boundary_and_others_do_not() -> None:
    one = Segment(trajectory_id="t0", first_turn=2, last_turn=3)
    next_one = Segment(trajectory_id="t0", first_turn=4, last_turn=4)
    elsewhere = Segment(trajectory_id="t1", first_turn=4, last_turn=4)
    assert sides([one, next_one, elsewhere]) == (*MEETING, ("before-3", "after-3"))
    assert sides([next_one, one]) == (("before", "after"), ("before-2", "before"))
    assert boundaries([one, next_one])["after"] == Boundary(trajectory_id="t0", turn=4)
    assert all(SIDE.fullmatch(name) for name in boundaries([one, next_one, elsewhere]))


def test_a_shared_boundary_is_played_once_for_both() -> None:
    assert next_round(Fixed(), weighed({}, MEETING), samples=8) == {"before": 8, "after": 8, "after-2": 8}
    opening = next_round(Adaptive(), weighed({}, MEETING), samples=8)
    assert opening == {"before": 2, "after": 2, "after-2": 2}


@pytest.mark.parametrize("values", [(0.2, 0.5, 0.9), (0.6, 0.3, 0.3)])
def test_the_deltas_of_segments_that_meet_are_unbiased_and_add_up(values: tuple[float, float, float]) -> None:
    def chance(successes: int, p: float) -> float:
        return comb(2, successes) * p**successes * (1 - p) ** (2 - successes)

    means = np.zeros(2)
    for won in product(range(3), repeat=3):
        counts = {side: (k, 2) for side, k in zip(("before", "after", "after-2"), won, strict=True)}
        verdicts = settle_all(Fixed(), weighed(counts, MEETING), samples=2, weight=1.0)
        deltas = np.array([verdict.delta for verdict in verdicts])
        assert deltas.sum() == pytest.approx((won[2] - won[0]) / 2)
        means += np.prod([chance(k, p) for k, p in zip(won, values, strict=True)]) * deltas
    assert means == pytest.approx(np.diff(values), abs=1e-12)


def test_the_next_round_is_for_those_that_are_not_settled() -> None:
    counts = {"before": (4, 4), "after": (0, 4), "before-2": (1, 4), "after-2": (3, 4)}
    following = next_round(Adaptive(), weighed(counts, APART[:2]), samples=8)
    assert following is not None
    assert (following["before"], following["after"]) == (4, 4)
    assert following["before-2"] + following["after-2"] > 8


def test_a_budget_goes_first_to_the_segment_that_learns_most() -> None:
    counts = {"before": (2, 6), "after": (3, 6), "before-2": (1, 2), "after-2": (1, 2)}
    rule, segments = Adaptive(price=0.0), weighed(counts, APART[:2])
    rates = [plan.rate for one in segments if (plan := rule.plan(one.evidence, samples=16)) is not None]
    assert rates[1] > rates[0]
    wanted = rule.plan(segments[1].evidence, samples=16)
    assert wanted is not None
    following = next_round(rule, segments, samples=16, budget=12 + wanted.before + wanted.after)
    assert following == {"before": 6, "after": 6, "before-2": wanted.before, "after-2": wanted.after}


def test_of_equal_ones_the_better_proposal_comes_first_and_the_last_may_get_nothing_and_earns_nothing() -> None:
    rule, segments = Adaptive(), weighed({}, APART)
    following = next_round(rule, segments, samples=8, budget=9)
    assert following is not None
    assert following == {"before": 2, "after": 2, "before-2": 2, "after-2": 2, "before-3": 0, "after-3": 0}
    won = {side: (n if side.startswith("after") else 0, n) for side, n in following.items()}
    verdicts = settle_all(rule, weighed(won, APART), samples=8, weight=1.0)
    assert verdicts[0].bonus == verdicts[1].bonus > 0
    assert verdicts[2].bonus == 0.0
    assert verdicts[2].stopped_because.startswith("budget")


@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_no_budget_and_no_boundary_is_ever_exceeded_and_every_analysis_ends(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["fixed", "frugal", "adaptive"]))
    named = data.draw(st.sampled_from([MEETING, APART]))
    most = data.draw(st.integers(1, 8))
    budget = data.draw(st.none() | st.integers(4, 40)) if name == "adaptive" else None
    counts: Counts = {side: (0, 0) for pair in named for side in pair}
    for _ in range(len(counts) * most + 1):
        following = next_round(MODES[name].rule, weighed(counts, named), samples=most, budget=budget)
        if following is None:
            settle_all(MODES[name].rule, weighed(counts, named), samples=most, weight=1.0)
            return
        assert sum(following.values()) > sum(samples for _, samples in counts.values())
        assert all(counts[side][1] <= total <= most for side, total in following.items())
        assert budget is None or sum(following.values()) <= budget
        for side, total in following.items():
            won, samples = counts[side]
            counts[side] = (won + data.draw(st.integers(0, total - samples)), total)
    pytest.fail("the rule asks for more for ever")


@settings(deadline=None, max_examples=20)
@given(order=st.permutations(range(3)), data=st.data())
def test_the_order_of_the_segments_changes_nothing_but_the_order_of_the_answer(
    order: list[int], data: st.DataObject
) -> None:
    counts: Counts = {}
    for side in (side for pair in APART for side in pair):
        samples = data.draw(st.integers(2, 8))
        counts[side] = (data.draw(st.integers(0, samples)), samples)
    there, shuffled = weighed(counts, APART), [weighed(counts, APART)[at] for at in order]
    assert next_round(Adaptive(), shuffled, samples=8) == next_round(Adaptive(), there, samples=8)
    verdicts = settle_all(Adaptive(), there, samples=8, weight=1.0)
    assert settle_all(Adaptive(), shuffled, samples=8, weight=1.0) == tuple(verdicts[at] for at in order)


COUNT = st.integers(1, 8).flatmap(lambda samples: st.tuples(st.integers(0, samples), st.just(samples)))


@pytest.mark.parametrize("name", ["fixed", "frugal", "adaptive"])
@settings(deadline=None, max_examples=40)
@given(before=COUNT, after=COUNT, weight=st.floats(0, 10))
def test_a_mistake_never_earns_a_gain_nor_a_success_a_loss(
    name: str, before: tuple[int, int], after: tuple[int, int], weight: float
) -> None:
    rule, counts = MODES[name].rule, {"before": before, "after": after}
    (success,) = settle_all(rule, weighed(counts, APART[:1]), samples=8, weight=weight)
    (mistake,) = settle_all(rule, weighed(counts, APART[:1], mistakes=frozenset({0})), samples=8, weight=weight)
    assert success.bonus >= 0.0 >= mistake.bonus
    (once,) = settle_all(rule, weighed(counts, APART[:1], mistakes=frozenset({0})), samples=8, weight=1.0)
    assert mistake.bonus == pytest.approx(weight * once.bonus)
    assert replace(mistake, bonus=0.0) == replace(once, bonus=0.0)


def test_a_verified_mistake_is_charged_what_it_lost() -> None:
    counts = {"before": (6, 8), "after": (1, 8)}
    lost = weighed(counts, APART[:1], mistakes=frozenset({0}))
    (fixed,) = settle_all(Fixed(), lost, samples=8, weight=2.0)
    assert (fixed.delta, fixed.bonus) == (-0.625, -1.25)
    (adaptive,) = settle_all(Adaptive(), lost, samples=8, weight=1.0)
    assert -0.6 < adaptive.bonus < -0.3
    assert adaptive.probability_positive < 0.05


def test_a_mistake_is_believed_to_lose_as_a_success_is_believed_to_gain() -> None:
    beliefs = Beliefs()
    success = Joint.prior(beliefs, group_successes=2, group_size=8, begins_with_group=False)
    mistake = Joint.prior(beliefs, group_successes=2, group_size=8, begins_with_group=False, mistake=True)
    assert success.probability_gain() == pytest.approx(success.delta().probability_positive)
    unchanged = float(np.trace(mistake.masses))
    assert mistake.probability_gain() == pytest.approx(1 - mistake.delta().probability_positive - unchanged)
    middle = mistake.masses[CELLS // 2] / mistake.masses[CELLS // 2].sum()
    assert middle[: CELLS // 2].sum() == pytest.approx(1 - beliefs.no_change - beliefs.harm)
    assert middle[CELLS // 2] == pytest.approx(beliefs.no_change)
    assert success.masses.sum(axis=1) == pytest.approx(mistake.masses.sum(axis=1))


def test_intervals_of_mistakes_cover_at_their_rate_where_the_prior_is_right() -> None:
    """90% intervals, 300 mistakes drawn from the prior and verified by the rule to its end."""
    rng, rule = np.random.default_rng(5), Adaptive()
    prior = Joint.prior(Beliefs(), group_successes=2, group_size=8, begins_with_group=False, mistake=True)
    cells = rng.choice(CELLS * CELLS, size=300, p=prior.masses.ravel())
    held = 0
    for cell in cells:
        values = {side: (index + 0.5) / CELLS for side, index in zip(APART[0], divmod(int(cell), CELLS), strict=True)}
        counts: Counts = {}
        while True:
            segments = weighed(counts, APART[:1], mistakes=frozenset({0}))
            following = next_round(rule, segments, samples=8)
            if following is None:
                break
            for side, total in following.items():
                won, samples = counts.get(side, (0, 0))
                counts[side] = (won + int(rng.binomial(total - samples, values[side])), total)
        (verdict,) = settle_all(rule, segments, samples=8, weight=1.0)
        truth = values["after"] - values["before"]
        held += verdict.interval[0] - 1e-9 <= truth <= verdict.interval[1] + 1e-9
    assert held >= 300 * 0.9 - 3 * (300 * 0.9 * 0.1) ** 0.5
