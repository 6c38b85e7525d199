"""Drawing tokens."""

import math

import numpy as np
import pytest
import torch

from services.engine.sampling import Draw, sample

LOGITS = torch.log(torch.tensor([[0.5, 0.3, 0.15, 0.05]]))


def draw(uniform: float, *, temperature: float = 1.0, top_p: float = 1.0) -> Draw:
    """One row's settings."""
    return Draw(temperature=temperature, top_p=top_p, uniform=uniform)


def shares(*, temperature: float = 1.0, top_p: float = 1.0) -> list[float]:
    """How often each token is drawn, over evenly spread uniforms."""
    uniforms = (np.arange(2000) + 0.5) / 2000
    draws = [draw(float(u), temperature=temperature, top_p=top_p) for u in uniforms]
    tokens, _ = sample(LOGITS.expand(2000, -1), draws)
    return [tokens.count(token) / 2000 for token in range(4)]


def test_tokens_are_drawn_as_often_as_they_are_likely() -> None:
    assert shares() == pytest.approx([0.5, 0.3, 0.15, 0.05], abs=0.001)


def test_temperature_sharpens_the_draw() -> None:
    squared = [0.25, 0.09, 0.0225, 0.0025]
    assert shares(temperature=0.5) == pytest.approx([p / sum(squared) for p in squared], abs=0.001)


def test_top_p_keeps_the_likeliest_tokens_that_hold_it() -> None:
    assert shares(top_p=0.7) == pytest.approx([0.625, 0.375, 0.0, 0.0], abs=0.001)
    assert shares(top_p=0.1) == [1.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.3, 1.0), (2.0, 0.5), (0.0, 1.0)])
def test_the_logprob_is_the_policys_own_whatever_the_settings(temperature: float, top_p: float) -> None:
    tokens, logprobs = sample(LOGITS, [draw(0.4, temperature=temperature, top_p=top_p)])
    assert tokens == [0]
    assert logprobs == pytest.approx([math.log(0.5)])


def test_temperature_zero_takes_the_likeliest_beside_rows_that_are_drawn() -> None:
    tokens, _ = sample(LOGITS.expand(2, -1), [draw(0.99, temperature=0.0), draw(0.99)])
    assert tokens == [0, 3]
