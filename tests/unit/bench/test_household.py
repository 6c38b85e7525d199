"""The studies' household: its rules, and that a run counts every token that it generates."""

from dataclasses import replace

import numpy as np
import pytest

from bench.frugal import Job, interval, rows_of, setups
from bench.household.episodes import finish, play
from bench.household.methods import GOOD, Judge, Method, audited, verified
from bench.household.policy import Network
from bench.household.studies import STUDIES
from bench.household.training import Budget, Run
from bench.household.world import HEAT, PLACES, PUT, SINK, TAKE, UNEQUAL, Worlds, draw, features, step


def act(worlds: Worlds, *actions: int) -> tuple[Worlds, list[bool]]:
    accepted = []
    for action in actions:
        worlds, valid = step(worlds, np.array([action]))
        accepted.append(bool(valid[0]))
    return worlds, accepted


def one(kind: int) -> Worlds:
    worlds = draw(UNEQUAL, 400, np.random.default_rng(3))
    return worlds.take(np.flatnonzero(worlds.kind == kind)[:1])


def test_an_object_that_must_be_hot_cannot_be_put_down_cold() -> None:
    worlds = one(3)
    hidden, stove, target = int(worlds.hidden[0]), int(worlds.stove[0]), int(worlds.target[0])
    start = [hidden] if hidden != worlds.place[0] else []
    cold, accepted = act(worlds, *start, TAKE, target, PUT)
    assert not accepted[-1] and not cold.success[0]
    hot, accepted = act(worlds, *start, TAKE, stove, HEAT, target, PUT)
    assert all(accepted) and hot.success[0]


def test_the_sink_is_found_or_known_by_kind_and_shown_while_it_is_wanted() -> None:
    worlds = draw(UNEQUAL, 500, np.random.default_rng(0))
    known, to_be_found = (worlds.take(np.flatnonzero(worlds.kind == kind)) for kind in (2, 4))
    assert set(known.sink) == {SINK} and len(set(to_be_found.sink)) == PLACES
    for places in zip(known.hidden, known.target, known.sink, known.stove, strict=True):
        assert len(set(places)) == 4
    shown = slice(3 * PLACES, 4 * PLACES)
    assert features(known)[:, shown].sum(axis=1).tolist() == [1.0] * len(known)
    unsearched = to_be_found.place != to_be_found.sink
    assert features(to_be_found)[unsearched, shown].sum() == 0.0
    assert features(replace(known, clean=np.ones_like(known.clean)))[:, shown].sum() == 0.0


def test_the_policy_sees_nothing_of_a_place_that_was_not_searched() -> None:
    worlds = draw(UNEQUAL, 500, np.random.default_rng(0))
    unseen = worlds.take(np.flatnonzero((worlds.kind == 1) & (worlds.hidden != worlds.place)))
    elsewhere = replace(unseen, hidden=(unseen.place + 1) % 8)
    assert np.array_equal(features(unseen), features(elsewhere))


def test_the_step_limit_counts_turns_that_are_used_already() -> None:
    rng = np.random.default_rng(1)
    worlds = draw(UNEQUAL, 50, rng)
    late = replace(worlds, turn=worlds.turn + 20)
    for play_on in (play, finish):
        assert play_on(Network(rng), late, UNEQUAL, rng).length.max() <= UNEQUAL.max_turns - 20


def test_the_gradient_step_raises_what_has_an_advantage() -> None:
    rng = np.random.default_rng(2)
    network = Network(rng)
    x = features(draw(UNEQUAL, 3, rng))
    actions = np.array([0, TAKE, PUT])
    before = network.probabilities(x)[np.arange(3), actions]
    network.ascend(x, actions, np.array([1.0, -1.0, 0.0]), rate=1e-3)
    after = network.probabilities(x)[np.arange(3), actions]
    assert after[0] > before[0] and after[1] < before[1]


@pytest.mark.parametrize(
    "method",
    [Method(), audited(GOOD), replace(audited(GOOD), apart=True), verified(Judge(right=0.0), 2, 3.0, train=True)],
)
def test_a_run_stops_at_its_tokens_and_counts_continuations(method: Method) -> None:
    run = Run(UNEQUAL, method, rate=0.01, seed=0, start=0.03)
    run.train(Budget(tokens=12_000))
    tally = run.tally
    assert 12_000 <= tally.tokens < 12_000 + 8_000
    assert tally.curve[-1][0] == tally.tokens
    if method.pay != "audited":  # whether one was audited is drawn at random
        assert (tally.continuation_tokens > 0) == (method.pay == "verified")


def test_an_interval_of_one_value_claims_nothing() -> None:
    assert interval([0.3]) == (0.3, float("-inf"), float("inf"))
    mean, low, high = interval([0.1, 0.2, 0.3])
    assert (mean, high - mean) == (pytest.approx(0.2), pytest.approx(4.303 * 0.1 / 3**0.5, rel=1e-3))
    assert low < 0.0 < high


def test_one_continuation_a_side_cannot_be_trained_on() -> None:
    run = Run(UNEQUAL, audited(GOOD, samples=1, train=True), rate=0.01, seed=0, start=0.03)
    with pytest.raises(ValueError, match=r"samples: was 1 .* expected at least 2"):
        run.train(Budget(tokens=1_000))


def test_a_method_counts_with_the_seeds_that_have_finished_at_every_rate() -> None:
    setup = setups(full=True)["unequal"]
    scores = {
        ("grpo", 0.01): (0.5, 0.4, 0.9),
        ("grpo", 0.02): (0.3, 0.3),
        ("audited", 0.01): (0.6, 0.6, 0.6),
        ("audited", 0.02): (0.7, 0.8, 0.9),
    }
    unchanging = {"final": 1.0, "continuation_share": 0.0, "eligible_share": 0.1}
    done = {
        Job(setup="unequal", method=method, rate=rate, seed=seed).key: {"score": score, **unchanging}
        for (method, rate), found in scores.items()
        for seed, score in enumerate(found)
    }
    grpo, better = rows_of("unequal", setup, range(3), done)
    assert (grpo["method"], grpo["rate"], grpo["seeds"]) == ("grpo", 0.01, [0, 1])
    assert (better["method"], better["rate"], better["seeds"]) == ("audited", 0.02, [0, 1, 2])
    assert better["above_grpo"] == [pytest.approx(value, abs=1e-4) for value in interval([0.2, 0.4])]
    assert grpo["studied"] == [0.653, 0.024] and better["studied"] == [0.042, 0.027]
    assert grpo["reproduced"] is better["reproduced"] is True  # two seeds: their intervals hold nearly everything


def test_every_figure_of_the_studies_is_of_a_method_that_is_run() -> None:
    chosen = setups(full=True)
    assert set(STUDIES) == set(chosen)
    for name, scores in STUDIES.items():
        assert set(scores) <= set(chosen[name].methods)
