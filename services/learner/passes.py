"""Forward and backward passes over packs, on one rank or several.

With several, each computes the packs of its own sequences. A pass puts sharded layers together, so all ranks must make
as many: one that has fewer packs fills up with a token that weighs nothing.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from prover.training.learner_experiment import LearnerExperiment
from services.learner.batches import Pack
from services.learner.loss import policy_loss
from services.learner.model import Scored, score
from services.learner.ranks import Ranks

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(slots=True)
class Sums:
    """Over the sampled tokens of a batch."""

    loss: float = 0.0
    clipped: float = 0.0
    engine_kl: float = 0.0
    reference_kl: float = 0.0
    entropy: float = 0.0
    tokens: float = 0
    computed: float = 0


class Passes:
    """What a model, and the reference that it may be held to, make of packs."""

    def __init__(
        self, model: nn.Module, reference: nn.Module | None, experiment: LearnerExperiment, ranks: Ranks
    ) -> None:
        self._model = model
        self._reference = reference
        self._experiment = experiment
        self._ranks = ranks

    def accumulate(self, packs: Sequence[Pack], *, signal: bool) -> Sums:
        """Adds up the gradient of this rank's packs where there is a signal, and what there is to report of all
        ranks' packs."""
        sums = Sums()
        missing = self._ranks.most(len(packs)) - len(packs)
        for each in (*packs, *[_nothing()] * missing):
            with torch.set_grad_enabled(signal):
                self._add(each, sums, signal=signal)
        return Sums(*self._ranks.sum(astuple(sums)))

    def score(self, each: Pack) -> Tensor:
        """Log-probabilities of the pack's sampled tokens, without a gradient."""
        with torch.no_grad():
            return self._score(self._model, each).logprobs_N

    def _add(self, each: Pack, sums: Sums, *, signal: bool) -> None:
        scored = self._score(self._model, each)
        parts = policy_loss(
            scored.logprobs_N,
            sampling_logprobs_N=self._numbers(each.logprobs_N),
            advantages_N=self._numbers(each.advantages_N),
            weights_N=self._numbers(each.weights_N),
            experiment=self._experiment,
            reference_logprobs_N=self._reference_logprobs(each),
        )
        if signal:
            (
                parts.loss * self._ranks.size
            ).backward()  # gradients are averaged over the ranks; the batch's is their sum
        counted = each.weights_N > 0
        counts = self._numbers(counted)
        sums.loss += parts.loss.item()
        sums.clipped += (parts.clipped_N * counts).sum().item()
        sums.engine_kl += (parts.engine_kl_N * counts).sum().item()
        sums.reference_kl += (parts.reference_kl_N * counts).sum().item()
        sums.entropy += (scored.entropies_N * counts).sum().item()
        sums.tokens += int(counted.sum())
        sums.computed += len(each.token_ids_T)

    def _score(self, model: nn.Module, each: Pack) -> Scored:
        return score(model, each, device=self._ranks.device, dtype=DTYPES[self._experiment.dtype])

    def _reference_logprobs(self, each: Pack) -> Tensor | None:
        if self._reference is None:
            return None
        with torch.no_grad():
            return self._score(self._reference, each).logprobs_N

    def _numbers(self, values: Any) -> Tensor:
        return torch.from_numpy(values).to(self._ranks.device, torch.float32)


def _nothing() -> Pack:
    """Two tokens, the second of which weighs nothing."""
    nothing = np.zeros(1)
    return Pack(
        token_ids_T=np.zeros(2, dtype=np.int64),
        positions_T=np.arange(2),
        lengths=(2,),
        sampled_N=np.ones(1, dtype=np.int64),
        logprobs_N=nothing,
        advantages_N=nothing,
        weights_N=nothing,
    )
