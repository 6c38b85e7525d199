"""The judge's record kept apart by features: only where audits tell, and never more than they tell."""

from math import fsum

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prover.credit.features import ENOUGH, FEATURES, Features, features_of, shift_of, told_apart
from prover.credit.record import audited_bonus, record_delta
from prover.trajectory import Group, Segment, Task, Trajectory, Turn

RATES = ("up to 1/8", "up to 1/4", "above 1/4")
POSITIONS = ("first", "middle", "last")
FEATURE = st.builds(
    Features, kind=st.sampled_from(("", "heat")), rate=st.sampled_from(RATES), position=st.sampled_from(POSITIONS)
)
AUDIT = st.tuples(FEATURE, st.sampled_from((-1.0, -0.5, 0.0, 0.5, 1.0)))
AUDITS = st.lists(AUDIT, min_size=2 * ENOUGH, max_size=256)


def of_kind(kind: str, delta: float, number: int) -> list[tuple[Features, float]]:
    return [(Features(kind=kind, rate=RATES[0], position=POSITIONS[0]), delta)] * number


@given(audits=st.lists(AUDIT, max_size=2 * ENOUGH - 1), here=FEATURE)
def test_with_too_few_audits_nothing_is_told_apart(audits: list[tuple[Features, float]], here: Features) -> None:
    assert shift_of(here, told_apart(audits)) == 0.0


@given(audits=AUDITS, here=FEATURE, data=st.data())
def test_the_order_of_the_audits_does_not_matter(
    audits: list[tuple[Features, float]], here: Features, data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(audits))
    assert shift_of(here, told_apart(shuffled)) == pytest.approx(shift_of(here, told_apart(audits)), abs=1e-9)


@given(audits=AUDITS, here=FEATURE)
def test_a_judge_that_is_better_everywhere_is_told_apart_as_before(
    audits: list[tuple[Features, float]], here: Features
) -> None:
    better = [(features, delta + 0.25) for features, delta in audits]
    assert shift_of(here, told_apart(better)) == pytest.approx(shift_of(here, told_apart(audits)), abs=1e-9)


@given(audits=AUDITS)
def test_a_value_is_shifted_towards_its_own_mean_and_not_beyond(audits: list[tuple[Features, float]]) -> None:
    """Of the first feature, whose shifts are of what the whole leaves."""
    mean = fsum(delta for _, delta in audits) / len(audits)
    for told in told_apart(audits)[FEATURES[0]].values():
        own = told.mean_delta - mean
        assert min(0.0, own) - 1e-9 <= told.shift <= max(0.0, own) + 1e-9
        assert told.audits >= ENOUGH or told.shift == 0.0


@given(audits=AUDITS, here=FEATURE, weight=st.floats(0.0, 20.0))
def test_the_bonus_stays_between_nothing_and_a_whole_success(
    audits: list[tuple[Features, float]], here: Features, weight: float
) -> None:
    deltas = [delta for _, delta in audits][-64:]
    shift = shift_of(here, told_apart(audits))
    assert 0.0 <= audited_bonus(deltas, weight=weight, shift=shift) <= weight + 1e-9


def test_a_judge_that_is_good_at_one_kind_alone_is_paid_for_that_kind() -> None:
    audits = [
        *of_kind("heat", 1.0, 60),
        *of_kind("heat", 0.0, 60),
        *of_kind("look", 0.0, 60),
        *of_kind("look", 0.0, 60),
    ]
    told = told_apart(audits)
    heat, look = (shift_of(of_kind(kind, 0.0, 1)[0][0], told) for kind in ("heat", "look"))
    assert (told["kind"]["heat"].audits, told["kind"]["heat"].mean_delta) == (120, 0.5)
    assert 0.2 < heat < 0.25
    assert look == pytest.approx(-heat)
    assert told["rate"][RATES[0]].shift == 0.0
    record = record_delta([delta for _, delta in audits[::4]])
    assert audited_bonus([delta for _, delta in audits[::4]], weight=10.0, shift=look) < 10.0 * record


def test_what_one_feature_explains_is_not_paid_again_for_another() -> None:
    """Every heating task is also one that seldom succeeds."""
    good = [(Features(kind="heat", rate=RATES[0], position="first"), delta) for delta in (1.0, 0.0)] * 60
    bad = [(Features(kind="look", rate=RATES[2], position="first"), 0.0)] * 120
    told = told_apart([*good, *bad])
    assert shift_of(good[0][0], told) == pytest.approx(told["kind"]["heat"].shift, abs=0.02)
    assert shift_of(good[0][0], told) <= 0.25


@pytest.mark.parametrize(("spread", "least_gain"), [(0.0, -0.02), (0.1, 0.0), (0.25, 0.1)])
def test_it_is_nearer_to_the_truth_where_kinds_differ_and_not_far_off_where_they_do_not(
    spread: float, least_gain: float
) -> None:
    """Root mean square error of the record for each kind, against the judge's true mean delta there, 200 histories."""
    random = np.random.default_rng(3)
    truth = {"a": 0.2 - spread, "b": 0.2, "c": 0.2 + spread}
    apart, whole = [], []
    for _ in range(200):
        kinds = random.choice(list(truth), 256)
        deltas = [float(random.random() < 0.3 + truth[kind]) - float(random.random() < 0.3) for kind in kinds.tolist()]
        like = {kind: Features(kind=kind, rate=RATES[0], position="first") for kind in truth}
        told = told_apart([(like[kind], delta) for kind, delta in zip(kinds.tolist(), deltas, strict=True)])
        record = record_delta(deltas)
        for kind, true in truth.items():
            whole.append((record - true) ** 2)
            apart.append((record + shift_of(like[kind], told) - true) ** 2)
    errors = [float(np.mean(squares)) ** 0.5 for squares in (whole, apart)]
    print(f"kinds differ by {spread}: error {errors[0]:.3f} of the whole record, {errors[1]:.3f} apart")  # noqa: T201
    assert errors[0] - errors[1] > least_gain


@pytest.mark.parametrize(
    ("task_id", "kind"),
    [
        ("valid_seen/pick_and_place_simple-Mug-None-Desk-308/trial_T20190908", "pick_and_place_simple"),
        ("generated/look_at_obj/7", "look_at_obj"),
        ("webshop-12", "webshop"),
        ("5/1,3", ""),
        ("0042", ""),
    ],
)
def test_features_are_known_before_anything_is_played(task_id: str, kind: str) -> None:
    task = Task(environment="e", task_id=task_id)
    members = tuple(
        Trajectory(
            id=f"t{index}",
            task=task,
            policy_version="v0",
            turns=tuple(Turn(observation="o", text="a", action="a") for _ in range(6)),
            reward=float(index < 2),
            success=index < 2,
        )
        for index in range(8)
    )
    group = Group(task=task, policy_version="v0", trajectories=members)
    found = features_of(group, Segment(trajectory_id="t0", first_turn=4, last_turn=4))
    assert found == Features(kind=kind, rate="up to 1/4", position="last")
