"""The loss against an independent computation: numpy for its value, finite differences for its gradient."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from prover.training.learner_experiment import LearnerExperiment
from services.learner.loss import TokenLoss, policy_loss

Floats = NDArray[np.float64]

lengths = st.integers(1, 12)
seeds = st.integers(0, 2**32 - 1)
experiments = st.builds(
    LearnerExperiment,
    ratio=st.sampled_from(["engine", "trainer"]),
    clip_low=st.floats(0.05, 0.5),
    clip_high=st.floats(0.05, 0.5),
    importance_cap=st.floats(1.0, 3.0),
    kl_weight=st.sampled_from([0.0, 0.3]),
)


def draw_tokens(seed: int, count: int) -> dict[str, Floats]:
    """Log-probabilities of policy, engine and reference, advantages and loss weights."""
    generator = np.random.default_rng(seed)
    logprobs = -generator.uniform(0.1, 4.0, count)
    return {
        "logprobs_N": logprobs,
        "sampling_logprobs_N": logprobs + generator.normal(0, 0.4, count),
        "reference_logprobs_N": logprobs + generator.normal(0, 0.4, count),
        "advantages_N": generator.normal(0, 1.0, count),
        "weights_N": generator.uniform(0, 1, count),
    }


def expected_loss(tokens: dict[str, Floats], experiment: LearnerExperiment, held: Floats) -> float:
    """The formula of the docstring, token by token. `held` are the log-probabilities that count as constant."""
    total = 0.0
    for index, logprob in enumerate(tokens["logprobs_N"]):
        advantage = tokens["advantages_N"][index]
        if experiment.ratio == "engine":
            ratio, importance = math.exp(logprob - tokens["sampling_logprobs_N"][index]), 1.0
        else:
            ratio = math.exp(logprob - held[index])
            importance = min(math.exp(held[index] - tokens["sampling_logprobs_N"][index]), experiment.importance_cap)
        clipped = min(max(ratio, 1 - experiment.clip_low), 1 + experiment.clip_high)
        loss = -importance * min(ratio * advantage, clipped * advantage)
        if experiment.kl_weight:
            difference = tokens["reference_logprobs_N"][index] - logprob
            loss += experiment.kl_weight * (math.exp(difference) - difference - 1)
        total += tokens["weights_N"][index] * loss
    return total


def compute(tokens: dict[str, Floats], experiment: LearnerExperiment) -> tuple[TokenLoss, torch.Tensor]:
    tensors = {name: torch.tensor(values, dtype=torch.float64) for name, values in tokens.items()}
    logprobs_N = tensors.pop("logprobs_N").requires_grad_()
    reference = tensors.pop("reference_logprobs_N")
    loss = policy_loss(
        logprobs_N,
        experiment=experiment,
        reference_logprobs_N=reference if experiment.kl_weight else None,
        **tensors,
    )
    return loss, logprobs_N


@given(seeds, lengths, experiments)
def test_the_loss_is_the_formula(seed: int, count: int, experiment: LearnerExperiment) -> None:
    tokens = draw_tokens(seed, count)
    loss, _ = compute(tokens, experiment)
    assert loss.loss.item() == pytest.approx(expected_loss(tokens, experiment, tokens["logprobs_N"]), abs=1e-9)


@given(seeds, lengths, experiments)
def test_its_gradient_is_that_of_finite_differences(seed: int, count: int, experiment: LearnerExperiment) -> None:
    tokens = draw_tokens(seed, count)
    loss, logprobs_N = compute(tokens, experiment)
    loss.loss.backward()
    assert logprobs_N.grad is not None
    held, step = tokens["logprobs_N"].copy(), 1e-6
    ratios = np.exp(held - (tokens["sampling_logprobs_N"] if experiment.ratio == "engine" else held))
    edges = np.array([1 - experiment.clip_low, 1 + experiment.clip_high])
    for index in range(count):
        if np.abs(ratios[index] - edges).min() < 1e-4:
            continue  # the loss has a kink there, and no derivative
        values = []
        for sign in (1, -1):
            moved = held.copy()
            moved[index] += sign * step
            values.append(expected_loss({**tokens, "logprobs_N": moved}, experiment, held))
        assert logprobs_N.grad[index].item() == pytest.approx((values[0] - values[1]) / (2 * step), abs=1e-6)


@given(seeds, lengths)
def test_clipped_tokens_get_no_gradient_and_only_they(seed: int, count: int) -> None:
    loss, logprobs_N = compute(draw_tokens(seed, count), LearnerExperiment())
    loss.loss.backward()
    assert logprobs_N.grad is not None
    assert torch.equal(loss.clipped_N, logprobs_N.grad == 0)


@given(seeds, lengths, experiments)
def test_divergences_are_never_negative(seed: int, count: int, experiment: LearnerExperiment) -> None:
    loss, _ = compute(draw_tokens(seed, count), experiment)
    assert loss.engine_kl_N.min() >= 0
    assert loss.reference_kl_N.min() >= 0


def test_an_engine_that_agrees_has_no_divergence_and_nothing_is_clipped() -> None:
    tokens = draw_tokens(0, 5)
    tokens["sampling_logprobs_N"] = tokens["logprobs_N"]
    loss, _ = compute(tokens, LearnerExperiment())
    assert loss.engine_kl_N.tolist() == [0.0] * 5
    assert not loss.clipped_N.any()


def test_the_high_clip_stops_what_went_up_enough_and_the_low_clip_what_went_down_enough() -> None:
    experiment = LearnerExperiment(clip_low=0.2, clip_high=0.4)
    ratios = np.array([1.39, 1.41, 0.81, 0.79, 1.5, 0.5])
    tokens = {
        "logprobs_N": np.log(ratios),
        "sampling_logprobs_N": np.zeros(6),
        "reference_logprobs_N": np.zeros(6),
        "advantages_N": np.array([1.0, 1.0, -1.0, -1.0, -1.0, 1.0]),
        "weights_N": np.ones(6),
    }
    loss, _ = compute(tokens, experiment)
    assert loss.clipped_N.tolist() == [False, True, False, True, False, False]


def test_importance_weights_are_cut_at_the_cap() -> None:
    experiment = LearnerExperiment(ratio="trainer", importance_cap=2.0)
    tokens = {
        "logprobs_N": np.array([0.0, 0.0]),
        "sampling_logprobs_N": np.array([-5.0, 1.0]),
        "reference_logprobs_N": np.zeros(2),
        "advantages_N": np.ones(2),
        "weights_N": np.ones(2),
    }
    loss, logprobs_N = compute(tokens, experiment)
    loss.loss.backward()
    assert logprobs_N.grad is not None
    assert logprobs_N.grad.tolist() == pytest.approx([-2.0, -math.exp(-1.0)])


def test_log_probabilities_that_are_worlds_apart_stay_finite() -> None:
    tokens = draw_tokens(0, 2)
    tokens["sampling_logprobs_N"] = np.array([-5000.0, 5000.0])
    loss, logprobs_N = compute(tokens, LearnerExperiment(kl_weight=0.1))
    loss.loss.backward()
    assert logprobs_N.grad is not None
    assert torch.isfinite(loss.loss)
    assert torch.isfinite(logprobs_N.grad).all()
