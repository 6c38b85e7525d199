"""Gradients of the whole model against a plain re-derivation: one turn at a time, transformers' own eager attention."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_policy import random_trajectory, write_tiny_weights
from transformers import AutoModelForCausalLM, MistralConfig, MistralForCausalLM

from prover.training.learner_experiment import LearnerExperiment
from prover.trajectory import CreditedTrajectory
from services.learner.batches import TrainingTurn, loss_weights, merge_turns, pack, read_turns
from services.learner.loss import policy_loss
from services.learner.model import load_model, may_pack, score

Gradients = dict[str, torch.Tensor]

few = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
batches = st.lists(
    st.builds(
        random_trajectory,
        st.integers(0, 10_000),
        turns=st.integers(1, 4),
        append_only=st.booleans(),
    ),
    min_size=1,
    max_size=4,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_weights(tmp_path_factory.mktemp("weights"))


def gradients(model: torch.nn.Module) -> Gradients:
    return {name: value.grad.clone() for name, value in model.named_parameters() if value.grad is not None}


def ours(
    folder: Path, turns: Sequence[Sequence[TrainingTurn]], *, max_tokens: int = 10_000, merged: bool = True
) -> tuple[float, Gradients]:
    """Loss and gradients by merging and packing."""
    sequences = []
    for number, trajectory in enumerate(turns):
        runs = [trajectory] if merged else [[turn] for turn in trajectory]
        sequences += [sequence for run in runs for sequence in merge_turns(run, trajectory=number)]
    model = load_model(folder)
    total = 0.0
    for each in pack(sequences, loss_weights(sequences, normalisation="token"), max_tokens=max_tokens):
        scored = score(model, each, device=torch.device("cpu"), dtype=torch.float32)
        loss = policy_loss(
            scored.logprobs_N,
            sampling_logprobs_N=torch.tensor(each.logprobs_N),
            advantages_N=torch.tensor(each.advantages_N),
            weights_N=torch.tensor(each.weights_N),
            experiment=LearnerExperiment(),
        ).loss
        loss.backward()
        total += loss.item()
    return total, gradients(model)


def plain(folder: Path, turns: Sequence[Sequence[TrainingTurn]]) -> tuple[float, Gradients]:
    """The same from the definition: mean over sampled tokens of -min(rA, clip(r)A), one turn at a time."""
    model = AutoModelForCausalLM.from_pretrained(str(folder), attn_implementation="eager", dtype=torch.float32)
    terms = []
    for turn in (turn for trajectory in turns for turn in trajectory):
        ids = torch.tensor([[*turn.context_token_ids, *turn.token_ids]])
        distribution = model(ids).logits[0].log_softmax(-1)
        for place, token in enumerate(turn.token_ids):
            logprob = distribution[len(turn.context_token_ids) + place - 1, token]
            ratio = (logprob - turn.logprobs[place]).exp()
            advantage = turn.advantages[place]
            terms.append(-torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.28) * advantage))
    loss = torch.stack(terms).mean()
    loss.backward()
    return loss.item(), gradients(model)


def assert_same(first: tuple[float, Gradients], second: tuple[float, Gradients]) -> None:
    assert first[0] == pytest.approx(second[0], abs=1e-5)
    assert first[1].keys() == second[1].keys()
    for name, gradient in first[1].items():
        torch.testing.assert_close(gradient, second[1][name], atol=1e-5, rtol=1e-3)


def read(batch: Sequence[CreditedTrajectory]) -> list[list[TrainingTurn]]:
    return [read_turns(credited) for credited in batch]


@few
@given(batches)
def test_merged_and_packed_gradients_are_those_of_the_definition(folder: Path, batch: list[CreditedTrajectory]) -> None:
    assert_same(ours(folder, read(batch)), plain(folder, read(batch)))


@few
@given(batches, st.integers(1, 80))
def test_neither_packing_nor_merging_changes_the_loss(
    folder: Path, batch: list[CreditedTrajectory], max_tokens: int
) -> None:
    assert_same(ours(folder, read(batch)), ours(folder, read(batch), max_tokens=max_tokens, merged=False))


@few
@given(batches, st.randoms())
def test_the_order_of_a_batch_does_not_matter(folder: Path, batch: list[CreditedTrajectory], random: object) -> None:
    shuffled = list(batch)
    random.shuffle(shuffled)  # pyright: ignore[reportAttributeAccessIssue]
    assert_same(ours(folder, read(batch)), ours(folder, read(shuffled), max_tokens=50))


@few
@given(st.integers(0, 1000), st.integers(0, 1000))
def test_tokens_that_were_read_get_no_gradient_of_their_own(folder: Path, seed: int, other: int) -> None:
    """Only the first turn has an advantage. What is read after it, whatever it is, changes nothing."""
    first, *_ = read([random_trajectory(seed, turns=1)])[0]
    generator = np.random.default_rng(other)

    def followed_by(observation: list[int]) -> list[TrainingTurn]:
        context = (*first.context_token_ids, *first.token_ids, *observation)
        silent = TrainingTurn(context_token_ids=context, token_ids=(1,), logprobs=(-1.0,), advantages=(0.0,))
        return [first, silent]

    observations = [generator.integers(0, 16, 5).tolist() for _ in range(2)]
    assert_same(*(ours(folder, [followed_by(observation)]) for observation in observations))


def test_sequences_of_a_pack_do_not_see_each_other(folder: Path) -> None:
    sequences = [merge_turns(turns, trajectory=0)[0] for turns in read([random_trajectory(i) for i in range(3)])]
    weights = loss_weights(sequences, normalisation="token")
    model = load_model(folder)
    cpu = torch.device("cpu")
    (together,) = pack(sequences, weights, max_tokens=1000)
    alone = pack(sequences, weights, max_tokens=1)
    with torch.no_grad():
        packed = score(model, together, device=cpu, dtype=torch.float32)
        single = [score(model, each, device=cpu, dtype=torch.float32) for each in alone]
    torch.testing.assert_close(packed.logprobs_N, torch.cat([each.logprobs_N for each in single]))
    torch.testing.assert_close(packed.entropies_N, torch.cat([each.entropies_N for each in single]))


def test_a_model_with_a_sliding_window_is_not_packed(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = MistralConfig(
        vocab_size=16,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        sliding_window=4,
    )
    MistralForCausalLM(config).save_pretrained(tmp_path)
    assert not may_pack(load_model(tmp_path))


def test_a_folder_without_a_model_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"weights: .*config\.json: .*expected a model's config"):
        load_model(tmp_path)
