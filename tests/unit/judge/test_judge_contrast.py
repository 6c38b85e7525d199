"""The judge without a model, and the two controls."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from bench.judge_household import Household
from prover.credit.eligibility import anchor, eligible
from prover.credit.segments import segment_fault, valid_segments
from prover.trajectory import Ending, Group, Trajectory
from services.judge.alignment import rarity, relevance, steps, taken, terms
from services.judge.chain import chain
from services.judge.contrast import Contrast
from services.judge.judge import JUDGES, Judge, JudgeOptions, ProposeLimits, make
from tests.unit.judge.builders import bell, group, trajectory


def flat(_: Trajectory) -> list[float]:
    return []


MIXED = (1000, 1011, 1012, 1020, 1021, 1024, 1026, 1028)
"""Households whose group of 8 is eligible."""


@cache
def household(seed: int) -> tuple[Group, dict[str, tuple[float, ...]]]:
    whole, values = Household(seed).group()
    assert eligible(sum(run.success for run in whole.trajectories), len(whole.trajectories))
    return whole, values


async def test_contrast_points_at_what_no_failed_run_did() -> None:
    found = await Contrast().propose(bell(), ProposeLimits())
    segment = found.proposals[0].segment
    assert segment.trajectory_id == "t1"
    assert segment.first_turn == 2  # opening the chest: every failed run stood before it
    assert "3 of 3 failed runs" in found.proposals[0].failure_mode


async def test_contrast_does_not_care_about_the_order_or_names_of_the_failures() -> None:
    forward, backward = bell(), group(*reversed(bell().trajectories))
    one, other = [await Contrast().propose(one, ProposeLimits()) for one in (forward, backward)]
    assert one.proposals == other.proposals


async def test_contrast_says_so_where_nothing_sets_the_success_apart() -> None:
    same = group(trajectory("a", ["x", "y", "z"], success=True), trajectory("b", ["x", "y", "w"]))
    found = await Contrast().propose(same, ProposeLimits())
    assert found.proposals == ()
    assert "sets it apart" in found.no_proposal_reason


@pytest.mark.parametrize("name", ["contrast", "random"])
async def test_an_anchor_of_one_action_has_no_proposal(name: str) -> None:
    short = group(trajectory("a", ["x"], success=True), trajectory("b", ["y"]))
    found = await make(name, JudgeOptions()).propose(short, ProposeLimits())
    assert "no valid segment" in found.no_proposal_reason


def named(name: str, digests: list[str], *, success: bool = False) -> Trajectory:
    """A run through the states of these names."""
    made = trajectory(name, [f"{name} {index}" for index in range(len(digests))], success=success)
    turns = tuple(replace(turn, digest=digest) for turn, digest in zip(made.turns, digests, strict=True))
    return replace(made, turns=turns)


def test_a_failed_run_in_the_same_state_has_taken_the_step() -> None:
    table = taken(steps(named("a", ["s0", "s1", "s2"])), [steps(named("b", ["s0", "s9", "s2"]))])
    assert table.tolist() == [[0.0, 1.0, 0.0]]


def test_relevance_follows_the_chain_back_from_the_ending_and_passes_detours_over() -> None:
    whole = bell()
    there = steps(anchor(whole))
    rho = relevance(there, rarity(whole), on_the_way=[True] * 4 + [False, True], carry=0.8, keep=0.8)
    walk_the_hall, take_the_bell, detour = rho[0], rho[3], rho[4]
    assert take_the_bell > 2 * walk_the_hall
    assert detour == 0.0
    assert (rho.min(), rho.max()) == (0.0, 1.0)


def test_the_chain_knows_from_where_the_group_went_on_to_win_in_time() -> None:
    won, lost = named("w", ["s", "a", "b"], success=True), [named(f"l{run}", ["s", "a", "s"]) for run in range(3)]
    found = chain(group(won, *lost), prior=0.0)
    assert found is not None
    # From s all 4 moves go to a; from a 1 of 4 goes to b, which won, and 3 go back to s, from where 3 turns are needed.
    assert found.values_along(won) == pytest.approx((1 / 4, 1 / 4, 1.0, 1.0))
    # The failed runs stand in s with one turn left.
    assert found.values_along(lost[0]) == pytest.approx((1 / 4, 1 / 4, 0.0, 0.0))
    assert found.distances_along(won) == (3, 2, 1, 0)


def test_more_turns_left_are_worth_more_where_the_way_back_is_known() -> None:
    won = named("w", ["s", "a", "s", "a", "b"], success=True)
    found = chain(group(won, *[named(f"l{run}", ["s", "a", "s"]) for run in range(3)]), prior=0.0)
    assert found is not None
    # 5 turns in all; a leads to b once, and back to s 4 times. V(a, 4) = 1/5 + 4/5 * V(a, 2), V(a, 2) = 1/5.
    assert found.values_along(won) == pytest.approx((9 / 25, 9 / 25, 1 / 5, 1 / 5, 1.0, 1.0))


def test_pseudo_moves_win_less_often_as_time_runs_out() -> None:
    won = named("w", ["s", "a"], success=True)
    found = chain(group(won, named("l", ["s", "x", "x", "x"])), prior=2.0)
    assert found is not None
    # Success rate 1/2, 4 turns in all. V(a, 3) = (1 + 2 * 1/2 * 3/4) / 3; x with n left: (2 V(x, n - 1) + n/4) / 4.
    x2 = (2 * (1 / 4) / 4 + 2 / 4) / 4
    x3 = (2 * x2 + 3 / 4) / 4
    assert found.values_along(won) == pytest.approx(((7 / 12 + x3 + 1) / 4, 7 / 12, 1.0))


def test_a_run_that_lost_for_good_counts_as_lost_and_one_that_was_stopped_does_not() -> None:
    won, stopped = named("w", ["s", "a"], success=True), named("l", ["s", "a"])
    lost = replace(stopped, ending=Ending.FINISHED)
    values = [
        found.values_along(won)[1] for found in (chain(group(won, one), prior=0.0) for one in (stopped, lost)) if found
    ]
    assert values == [1.0, 0.5]


def test_a_detour_does_not_shorten_the_way() -> None:
    won = named("w", ["s", "x", "s", "b"], success=True)
    found = chain(group(won, named("l", ["s", "x"])), prior=0.2)
    assert found is not None
    assert found.distances_along(won) == (2, 3, 2, 1, 0)


def test_without_digests_there_is_no_chain() -> None:
    assert chain(bell(), prior=0.2) is None


def test_a_number_belongs_to_the_word_before_it() -> None:
    assert terms("Shelf 3, shelf 4 (12)") == ("shelf", "shelf_3", "shelf", "shelf_4", "12")


@pytest.mark.parametrize("name", sorted(JUDGES.keys() - {"llm"}))
async def test_every_judge_names_disjoint_valid_segments_and_does_so_again(name: str) -> None:
    for whole, values in map(household, MIXED[:4]):
        judge: Judge = make(name, JudgeOptions(values=lambda one, values=values: values[one.id]))
        limits = ProposeLimits(max_proposals=3)
        found = [(await judge.propose(whole, limits)).proposals for _ in range(2)]
        assert found[0] == found[1]
        assert 1 <= len(found[0]) <= 3
        assert all(segment_fault(one.segment, anchor(whole)) is None for one in found[0])
        assert all(one.judge == name == judge.name for one in found[0])


async def test_random_draws_every_valid_segment_about_equally_often() -> None:
    segments = valid_segments(anchor(bell()))
    counts = dict.fromkeys(segments, 0)
    for seed in range(140 * len(segments)):
        found = await make("random", JudgeOptions()).propose(bell(), ProposeLimits(seed=seed))
        counts[found.proposals[0].segment] += 1
    assert all(100 < count < 180 for count in counts.values())


async def test_oracle_names_the_shortest_segment_with_the_largest_gain() -> None:
    values = (0.1, 0.1, 0.1, 0.6, 0.6, 0.62, 1.0)
    judge = make("oracle", JudgeOptions(values=lambda _: values))
    found = await judge.propose(bell(), ProposeLimits(max_proposals=2))
    assert [(one.segment.first_turn, one.segment.last_turn) for one in found.proposals] == [(2, 2), (4, 4)]


async def test_oracle_refuses_values_that_do_not_fit_the_anchor() -> None:
    with pytest.raises(ValueError, match="values: 0 for trajectory 't1'; expected 7"):
        await make("oracle", JudgeOptions(values=flat)).propose(bell(), ProposeLimits())


def test_oracle_is_not_to_be_had_without_the_truth() -> None:
    with pytest.raises(ValueError, match="true values"):
        make("oracle", JudgeOptions())


def test_an_unknown_judge_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"was 'guess'; expected one of contrast, llm, oracle, random"):
        make("guess", JudgeOptions())


@pytest.mark.parametrize("name", ["contrast", "random"])
@pytest.mark.parametrize("success", [True, False])
async def test_a_group_without_contrast_is_the_callers_mistake(name: str, success: bool) -> None:
    with pytest.raises(ValueError, match="expected at least one success"):
        whole = group(trajectory("a", ["x", "y"], success=success))
        await make(name, JudgeOptions()).propose(whole, ProposeLimits())


async def test_on_households_contrast_gains_far_more_than_random_and_less_than_the_truth() -> None:
    gains = dict[str, list[float]](contrast=[], random=[], oracle=[])
    for whole, values in map(household, MIXED):
        for name, mine in gains.items():
            judge = make(name, JudgeOptions(values=lambda one, values=values: values[one.id]))
            for proposal in (await judge.propose(whole, ProposeLimits())).proposals:
                worth = values[proposal.segment.trajectory_id]
                mine.append(worth[proposal.segment.last_turn + 1] - worth[proposal.segment.first_turn])
    mean = {name: float(np.mean(mine)) for name, mine in gains.items()}
    assert 2 * mean["random"] < mean["contrast"] <= mean["oracle"] + 1e-9


@pytest.mark.parametrize(
    ("field", "value"),
    [("max_proposals", 0), ("max_tokens", 0), ("max_repairs", -1), ("timeout_s", 0.0), ("max_cost_usd", -1.0)],
)
def test_a_limit_out_of_range_is_named(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=field):
        ProposeLimits(**{field: value})
