"""Merging turns into sequences, and sequences into packs."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_policy import random_trajectory

from prover.trajectory import CreditedTrajectory, TrajectoryCredit, Turn, TurnCredit
from services.learner.batches import (
    TrainingSequence,
    TrainingTurn,
    loss_weights,
    merge_turns,
    pack,
    read_turns,
)


def turn(context: list[int], sampled: list[int], advantage: float = 1.0) -> TrainingTurn:
    return TrainingTurn(
        context_token_ids=tuple(context),
        token_ids=tuple(sampled),
        logprobs=tuple(-float(token) for token in sampled),
        advantages=(advantage,) * len(sampled),
    )


def sequences_of(*trajectories: CreditedTrajectory) -> list[TrainingSequence]:
    return [
        sequence
        for number, credited in enumerate(trajectories)
        for sequence in merge_turns(read_turns(credited), trajectory=number)
    ]


def test_turns_that_go_on_are_one_sequence_and_only_what_was_sampled_is_marked() -> None:
    (sequence,) = merge_turns([turn([1, 2], [3]), turn([1, 2, 3, 4, 5], [6, 7])], trajectory=0)
    assert sequence.token_ids_S.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert sequence.sampled_N.tolist() == [2, 5, 6]
    assert sequence.logprobs_N.tolist() == [-3.0, -6.0, -7.0]


def test_a_history_that_was_cut_begins_a_new_sequence() -> None:
    sequences = merge_turns([turn([1, 2], [3]), turn([2, 3, 4], [5]), turn([2, 3, 4, 5, 6], [7])], trajectory=0)
    assert [sequence.token_ids_S.tolist() for sequence in sequences] == [[1, 2, 3], [2, 3, 4, 5, 6, 7]]


def test_a_context_that_drops_the_end_of_what_was_sampled_does_not_go_on() -> None:
    sequences = merge_turns([turn([1], [2, 3]), turn([1, 2, 4], [5])], trajectory=0)
    assert [sequence.token_ids_S.tolist() for sequence in sequences] == [[1, 2, 3], [1, 2, 4, 5]]


def test_turns_in_which_nothing_was_sampled_are_left_out() -> None:
    assert merge_turns([turn([1], [])], trajectory=0) == []
    (sequence,) = merge_turns([turn([1], [2]), turn([1, 2, 3], []), turn([1, 2, 3], [4])], trajectory=0)
    assert sequence.sampled_N.tolist() == [1, 3]


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 4), st.booleans()), min_size=1, max_size=6))
def test_merging_keeps_every_sampled_token_with_its_context(made: list[tuple[int, int, bool]]) -> None:
    for seed, turns, append_only in made:
        credited = random_trajectory(seed, turns=turns, append_only=append_only)
        sequences = sequences_of(credited)
        merged = [
            (tuple(sequence.token_ids_S[:place]), sequence.token_ids_S[place], logprob, advantage)
            for sequence in sequences
            for place, logprob, advantage in zip(
                sequence.sampled_N, sequence.logprobs_N, sequence.advantages_N, strict=True
            )
        ]
        single = [
            ((*each.context_token_ids, *each.token_ids[:place]), token, each.logprobs[place], each.advantages[place])
            for each in read_turns(credited)
            for place, token in enumerate(each.token_ids)
        ]
        assert merged == single
        if append_only:
            assert len(sequences) == 1


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=12, unique=True), st.integers(1, 200))
def test_packs_hold_every_sequence_once_within_the_budget(seeds: list[int], budget: int) -> None:
    sequences = sequences_of(*(random_trajectory(seed) for seed in seeds))
    packs = pack(sequences, loss_weights(sequences, normalisation="token"), max_tokens=budget)
    lengths = sorted(length for each in packs for length in each.lengths)
    assert lengths == sorted(len(sequence.token_ids_S) for sequence in sequences)
    for each in packs:
        assert len(each.token_ids_T) == sum(each.lengths)
        assert len(each.lengths) == 1 or sum(each.lengths) <= budget
        assert each.positions_T.tolist() == [place for length in each.lengths for place in range(length)]


def test_a_pack_points_at_the_sampled_tokens_of_each_of_its_sequences() -> None:
    sequences = [
        merge_turns([turn([1, 2, 3], [4])], trajectory=0)[0],
        merge_turns([turn([5], [6])], trajectory=1)[0],
    ]
    (each,) = pack(sequences, loss_weights(sequences, normalisation="token"), max_tokens=100)
    assert each.token_ids_T[each.sampled_N].tolist() == [4, 6]


@pytest.mark.parametrize(
    ("normalisation", "weights"), [("token", [[0.25] * 3, [0.25]]), ("sequence", [[1 / 6] * 3, [0.5]])]
)
def test_tokens_or_trajectories_weigh_the_same(normalisation: str, weights: list[list[float]]) -> None:
    sequences = [
        merge_turns([turn([1], [2, 3, 4])], trajectory=0)[0],
        merge_turns([turn([1], [2])], trajectory=1)[0],
    ]
    found = loss_weights(sequences, normalisation=normalisation)
    assert [np.round(each, 9).tolist() for each in found] == [np.round(each, 9).tolist() for each in weights]


def test_a_trajectory_of_several_sequences_weighs_as_one() -> None:
    cut = merge_turns([turn([1], [2]), turn([3], [4])], trajectory=0)
    whole = merge_turns([turn([1], [2, 3])], trajectory=1)
    weights = loss_weights([*cut, *whole], normalisation="sequence")
    assert [each.tolist() for each in weights] == [[0.25], [0.25], [0.25, 0.25]]


def test_a_turns_advantage_is_that_of_its_tokens_where_those_have_none_of_their_own() -> None:
    credited = random_trajectory(0, turns=1)
    credit = replace(credited.credit, turns=(TurnCredit(advantage=0.5, token_advantages=None),))
    (read,) = read_turns(replace(credited, credit=credit))
    assert read.advantages == (0.5,) * len(read.token_ids)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"context_token_ids": None}, r"turns\[0\]\.context_token_ids: was absent"),
        ({"logprobs": None}, r"turns\[0\]\.logprobs: was absent"),
        ({"token_ids": None, "logprobs": None}, r"turns\[0\]\.token_ids: was absent"),
        ({"context_token_ids": ()}, r"turns\[0\]\.context_token_ids: was empty"),
        ({"token_ids": (1, 2), "logprobs": (0.0, float("nan"))}, "were not all finite"),
    ],
)
def test_a_turn_that_cannot_be_trained_on_is_named(change: dict[str, object], message: str) -> None:
    made = {"context_token_ids": (1,), "token_ids": (2, 3), "logprobs": (-1.0, -1.0)} | change
    trajectory = replace(
        random_trajectory(0, turns=1).trajectory,
        turns=(Turn(observation="", text="", action=None, **made),),  # pyright: ignore[reportArgumentType]
    )
    credit = TrajectoryCredit(
        trajectory_id="t0", group_advantage=0.0, turns=(TurnCredit(advantage=1.0, token_advantages=None),)
    )
    with pytest.raises(ValueError, match=message):
        read_turns(CreditedTrajectory(trajectory=trajectory, credit=credit))


def test_advantages_for_another_number_of_tokens_are_refused() -> None:
    credited = random_trajectory(0, turns=1)
    credit = replace(credited.credit, turns=(TurnCredit(advantage=0.0, token_advantages=(1.0,) * 9),))
    with pytest.raises(ValueError, match=r"token_advantages: 9 for \d tokens"):
        read_turns(replace(credited, credit=credit))
