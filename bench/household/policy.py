"""A policy network of one hidden layer, with Adam: shared by all steps, as a language model's weights are."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bench.household.world import ACTIONS, FEATURES, Floats, Ints

HIDDEN = 64
_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8


class Network:
    """tanh layer, softmax over actions, in float32. Weights start small: the first policy is nearly uniform."""

    def __init__(self, rng: np.random.Generator, *, weights: Sequence[Floats] | None = None) -> None:
        """Random weights, or a copy of those given; no optimizer state either way."""
        drawn: Sequence[Floats] = weights or (
            rng.normal(0.0, FEATURES**-0.5, (FEATURES, HIDDEN)).astype(np.float32),
            np.zeros(HIDDEN, dtype=np.float32),
            rng.normal(0.0, 0.1 * HIDDEN**-0.5, (HIDDEN, ACTIONS)).astype(np.float32),
            np.zeros(ACTIONS, dtype=np.float32),
        )
        self.weights: list[Floats] = [weight.copy() for weight in drawn]
        self._first = [np.zeros_like(weight) for weight in self.weights]
        self._second = [np.zeros_like(weight) for weight in self.weights]
        self._steps = 0

    def probabilities(self, x: Floats) -> Floats:
        """Shape (N, ACTIONS)."""
        return _softmax(self._hidden(x) @ self.weights[2] + self.weights[3])

    def sample(self, x: Floats, rng: np.random.Generator) -> Ints:
        """One action a row."""
        cumulative = np.cumsum(self.probabilities(x), axis=1)
        draws = rng.random((len(x), 1), dtype=np.float32) * cumulative[:, -1:]
        return np.minimum((draws > cumulative).sum(axis=1), ACTIONS - 1)

    def ascend(self, x: Floats, actions: Ints, advantages: Floats, *, rate: float) -> None:
        """One Adam step up the policy gradient: mean over tokens of advantage * log p(action)."""
        hidden = self._hidden(x)
        towards = -_softmax(hidden @ self.weights[2] + self.weights[3])
        towards[np.arange(len(x)), actions] += 1.0
        towards *= (advantages[:, None] / len(x)).astype(np.float32)
        back = (towards @ self.weights[2].T) * (1.0 - hidden**2)
        self._adam([x.T @ back, back.sum(axis=0), hidden.T @ towards, towards.sum(axis=0)], rate)

    def _adam(self, gradients: list[NDArray[np.floating]], rate: float) -> None:
        self._steps += 1
        for index, gradient in enumerate(gradients):
            self._first[index] = _BETA1 * self._first[index] + (1 - _BETA1) * gradient
            self._second[index] = _BETA2 * self._second[index] + (1 - _BETA2) * gradient**2
            first = self._first[index] / (1 - _BETA1**self._steps)
            second = self._second[index] / (1 - _BETA2**self._steps)
            self.weights[index] = self.weights[index] + rate * first / (np.sqrt(second) + _EPSILON)

    def _hidden(self, x: Floats) -> Floats:
        return np.tanh(x @ self.weights[0] + self.weights[1])


def _softmax(logits: Floats) -> Floats:
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)
