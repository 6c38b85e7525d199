"""The joint posterior and the adaptive rule."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prover.credit.adaptive import Adaptive
from prover.credit.joint import CELLS, Beliefs, Joint
from prover.credit.rules import Evidence, Plan
from prover.trajectory import BoundaryCount


def count(successes: int, samples: int) -> BoundaryCount:
    return BoundaryCount(successes=successes, samples=samples)


def prior(beliefs: Beliefs | None = None, *, successes: int = 2, begins_with_group: bool = False) -> Joint:
    return Joint.prior(
        beliefs or Beliefs(), group_successes=successes, group_size=8, begins_with_group=begins_with_group
    )


def evidence(before: tuple[int, int], after: tuple[int, int], *, begins_with_group: bool = False) -> Evidence:
    return Evidence(
        before=count(*before),
        after=count(*after),
        group_successes=2,
        group_size=8,
        begins_with_group=begins_with_group,
    )


counts = st.integers(0, 8).flatmap(lambda samples: st.tuples(st.integers(0, samples), st.just(samples)))


def test_the_prior_is_the_spike_the_slab_and_the_harm_it_says() -> None:
    masses = prior().masses
    middle = masses[CELLS // 2] / masses[CELLS // 2].sum()
    assert middle[CELLS // 2] == pytest.approx(0.15)
    assert middle[: CELLS // 2].sum() == pytest.approx(0.30)
    assert middle[CELLS // 2 + 1 :].sum() == pytest.approx(0.55)


def test_clear_outcomes_are_hardly_shrunk_since_a_segment_may_decide() -> None:
    """1 of 8 before and 8 of 8 after: the raw difference is 0.875."""
    gained = prior(successes=1).given(count(1, 8), count(8, 8)).delta()
    assert 0.75 < gained.mean < 0.875
    undecided = prior(Beliefs(decisive=0.0), successes=1).given(count(1, 8), count(8, 8)).delta()
    assert undecided.mean < gained.mean
    assert undecided.interval[1] < gained.interval[1]


def test_without_spike_and_harm_and_with_much_data_the_posterior_is_where_the_data_are() -> None:
    posterior = prior(Beliefs(no_change=0.0)).given(count(200, 1000), count(700, 1000)).delta()
    assert posterior.mean == pytest.approx(0.5, abs=0.03)
    assert posterior.probability_positive > 0.999


def test_equal_rates_are_explained_by_the_spike() -> None:
    joint = prior().given(count(20, 40), count(20, 40))
    assert np.trace(joint.masses) > 2 * Beliefs().no_change


@given(before=counts, after=counts)
@settings(deadline=None, max_examples=30)
def test_learning_is_expected_to_take_variance_away(before: tuple[int, int], after: tuple[int, int]) -> None:
    joint = prior().given(count(*before), count(*after))
    _, variance = joint.gain()
    expected = [joint.expected_variance(more, more) for more in (0, 1, 4)]
    assert expected[0] == pytest.approx(variance, abs=1e-9)
    assert expected[0] + 1e-9 >= expected[1] >= expected[2] - 1e-9 >= -2e-9


def test_the_expected_variance_is_the_mean_over_what_may_come() -> None:
    joint = prior().given(count(1, 3), count(2, 3))
    values = (np.arange(CELLS) + 0.5) / CELLS
    chance = float((joint.masses.sum(axis=1) * values).sum())
    won, lost = joint.given(count(1, 1), count(0, 0)).gain()[1], joint.given(count(0, 1), count(0, 0)).gain()[1]
    assert joint.expected_variance(1, 0) == pytest.approx(chance * won + (1 - chance) * lost, abs=1e-9)


def test_the_group_counts_as_samples_only_where_the_segment_begins_with_it() -> None:
    values = (np.arange(CELLS) + 0.5) / CELLS

    def spread(joint: Joint) -> float:
        before = joint.masses.sum(axis=1)
        return float(before @ values**2 - (before @ values) ** 2)

    assert spread(prior(begins_with_group=True)) < 0.6 * spread(prior(begins_with_group=False))


def test_evidence_of_a_group_that_was_looked_at_before_is_fair() -> None:
    """Values drawn from the prior, groups kept only if eligible: the posterior mean is right on average."""
    rng = np.random.default_rng(3)
    beliefs, values = Beliefs(), (np.arange(CELLS) + 0.5) / CELLS
    truths, beliefs_after = [], []
    while len(truths) < 4000:
        value = float(np.clip(rng.beta(*beliefs.value_shape), 0.0125, 0.9875))
        successes = int(rng.binomial(8, value))
        if 1 <= successes <= 3:
            truths.append(value)
            beliefs_after.append(successes)
    means = {k: float(prior(successes=k, begins_with_group=True).masses.sum(axis=1) @ values) for k in (1, 2, 3)}
    assert np.mean(truths) == pytest.approx(np.mean([means[k] for k in beliefs_after]), abs=0.03)


def test_clear_cases_stop_early_and_open_ones_go_on() -> None:
    rule = Adaptive()
    assert rule.plan(evidence((0, 0), (0, 0)), samples=8) == Plan(before=2, after=2)
    assert rule.plan(evidence((4, 4), (0, 4)), samples=8) is None
    assert rule.plan(evidence((1, 4), (3, 4)), samples=8) is not None
    assert rule.plan(evidence((0, 0), (0, 0)), samples=1) == Plan(before=1, after=1)


def test_more_samples_go_where_more_is_to_be_learned() -> None:
    plan = Adaptive().plan(evidence((2, 8), (2, 4)), samples=16)
    assert plan is not None
    assert plan.after > 4


def test_credit_is_shrunk_and_small_credit_is_not_paid() -> None:
    rule = Adaptive()
    verdict = rule.settle(evidence((2, 8), (6, 8)), samples=8, weight=1.0)
    assert 0.0 < verdict.bonus < 0.5
    assert verdict.stopped_because.startswith("budget")
    nothing = rule.settle(evidence((3, 4), (1, 4)), samples=8, weight=1.0)
    assert nothing.bonus == 0.0
    assert nothing.stopped_because.startswith("futility")


def test_credible_intervals_cover_at_their_rate_although_the_rule_stops_when_it_likes() -> None:
    rule, rng = Adaptive(), np.random.default_rng(0)
    masses = prior().masses
    drawn = rng.choice(masses.size, size=400, p=masses.ravel())
    inside = 0
    for cell in drawn:
        before, after = ((cell // CELLS) + 0.5) / CELLS, ((cell % CELLS) + 0.5) / CELLS
        seen = evidence((0, 0), (0, 0))
        while (plan := rule.plan(seen, samples=8)) is not None:
            won = int(rng.binomial(plan.before - seen.before.samples, before))
            gained = int(rng.binomial(plan.after - seen.after.samples, after))
            seen = evidence((seen.before.successes + won, plan.before), (seen.after.successes + gained, plan.after))
        low, high = rule.settle(seen, samples=8, weight=1.0).interval
        inside += low - 0.5 / CELLS <= after - before <= high + 0.5 / CELLS
    assert inside / 400 > 0.9 - 3 * (0.09 / 400) ** 0.5


@pytest.mark.parametrize("shares", [(0.9, 0.2), (-0.1, 0.2)])
def test_impossible_beliefs_are_refused(shares: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="expected shares of one"):
        Beliefs(no_change=shares[0], harm=shares[1])


def test_an_impossible_share_of_deciding_segments_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a share of one"):
        Beliefs(decisive=1.2)
