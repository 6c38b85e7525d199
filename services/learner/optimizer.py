"""AdamW with linear warm-up and a bound on the gradient's norm, over the parameters that are trained."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from prover.training.learner_experiment import LearnerExperiment
from services.learner.ranks import Ranks, divided_like, whole


class Optimizer:
    """Gradients are accumulated by `backward`, elsewhere; `update` uses them up."""

    def __init__(self, model: nn.Module, experiment: LearnerExperiment) -> None:
        self.trainable = {name: value for name, value in model.named_parameters() if value.requires_grad}
        self._max_norm = experiment.max_gradient_norm
        self._adamw = torch.optim.AdamW(
            list(self.trainable.values()),
            lr=experiment.learning_rate,
            betas=experiment.betas,
            weight_decay=experiment.weight_decay,
        )
        warmup = experiment.warmup_steps
        self._schedule = LambdaLR(self._adamw, lambda step: min(1.0, (step + 1) / (warmup + 1)))

    def update(self) -> float:
        """One step. Returns the gradient's norm before it was bounded; where that is not finite, nothing is changed."""
        norm = float(whole(nn.utils.clip_grad_norm_(list(self.trainable.values()), self._max_norm)))
        if math.isfinite(norm):
            self._adamw.step()
            self._schedule.step()
        self._adamw.zero_grad(set_to_none=True)
        return norm

    def forget(self) -> None:
        """Throws away what was accumulated."""
        self._adamw.zero_grad(set_to_none=True)

    def state(self, ranks: Ranks) -> dict[str, object]:
        """Everything but the parameters, undivided; on rank 0."""
        adamw: Any = self._adamw.state_dict()
        moments = {place: ranks.gather(values) for place, values in adamw["state"].items()}
        return {"adamw": {**adamw, "state": moments}, "schedule": self._schedule.state_dict()}

    def restore(self, state: Mapping[str, Any], trainable: Mapping[str, Tensor]) -> None:
        """Goes on from a saved state and its parameters, however many ranks saved them. Raises ValueError where those
        are of another model."""
        if set(trainable) != set(self.trainable):
            different = sorted(set(trainable) ^ set(self.trainable))[:3]
            raise ValueError(f"checkpoint: other parameters than the model's, such as {different}; expected the same")
        with torch.no_grad():
            for name, parameter in self.trainable.items():
                parameter.copy_(divided_like(trainable[name], parameter))
        adamw = state["adamw"]
        parameters = list(self.trainable.values())
        moments = {
            place: {key: divided_like(value, parameters[place]) for key, value in values.items()}
            for place, values in adamw["state"].items()
        }
        self._adamw.load_state_dict({**adamw, "state": moments})
        self._schedule.load_state_dict(state["schedule"])
