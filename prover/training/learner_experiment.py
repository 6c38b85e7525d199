"""The learner's knobs, from a TOML file of its own. Unknown keys are rejected; the file is kept with the output.

Here, and not in the learner, so that `prover train` finds a wrong knob before it starts a process. Where things are
(addresses, folders) are settings, and never mixed with these.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

PROBE_NATS: Mapping[str, float] = {"float32": 0.05, "bfloat16": 0.5}
"""How far the right weights may be from the trainer's log-probabilities, by what they were published in. In bfloat16
0.34 nats were measured (docs/vllm.md), and 3.4 and more with the wrong ones."""


class LearnerExperiment(BaseModel):
    """The defaults train the embedded policy.

    Attributes:
        learning_rate: of AdamW, after `warmup_steps` of linear warm-up.
        weight_decay: of AdamW.
        max_gradient_norm: L2; larger gradients are scaled down to it.
        clip_low: a probability ratio below 1 - clip_low earns nothing more for tokens of negative advantage.
        clip_high: a probability ratio above 1 + clip_high earns nothing more for tokens of positive advantage.
        normalisation: "token" gives every sampled token of the batch the same weight, "sequence" every trajectory.
        ratio: "engine" compares with the log-probabilities that the engine sampled with; "trainer" with the trainer's
            own at the start of the step, and corrects for the engine's by importance weights of at most
            `importance_cap`.
        kl_weight: of the KL divergence to the starting weights; 0 keeps no reference.
        pack_tokens: most tokens of one forward and backward pass. A longer sequence gets a pass to itself.
        dtype: what forward and backward are computed in; weights and optimizer are float32 always.
        publish_dtype: of the published files. float32 loses nothing; an engine that computes in bfloat16 rounds anyway,
            and half the file is enough for it.
        activation_checkpointing: computes activations again in the backward pass, for memory.
        lora_rank: 0 trains all weights. Otherwise only adapters are trained, on every linear layer but the last.
        publish: how new weights reach the engine. "folder": the whole model, in a folder that the engine reads.
            "adapter" (vLLM, with `lora_rank`): only the adapter, loaded under the version's name. "nccl" (vLLM on
            GPUs): the whole model, sent from GPU to GPU.
        versions_kept: published versions whose files are kept, the newest; of adapters also how many stay loaded.
        checkpoint_every: optimizer steps between checkpoints.
        engine_kl_alert: nats a token; above it a warning is logged.
        probe_tolerance: nats; how far trainer and engine may be apart on the probe that proves a publish. None is what
            `publish_dtype` allows for: see PROBE_NATS. Name it for an engine that computes in bfloat16 what is
            published in float32.
        seed: of torch.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    learning_rate: float = Field(default=1e-4, gt=0)
    warmup_steps: int = Field(default=0, ge=0)
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = Field(default=0.0, ge=0)
    max_gradient_norm: float = Field(default=1.0, gt=0)
    clip_low: float = Field(default=0.2, gt=0, lt=1)
    clip_high: float = Field(default=0.28, gt=0)
    normalisation: Literal["token", "sequence"] = "token"
    ratio: Literal["engine", "trainer"] = "engine"
    importance_cap: float = Field(default=2.0, ge=1)
    kl_weight: float = Field(default=0.0, ge=0)
    pack_tokens: int = Field(default=4096, ge=1)
    dtype: Literal["float32", "bfloat16"] = "float32"
    publish_dtype: Literal["float32", "bfloat16"] = "float32"
    activation_checkpointing: bool = False
    lora_rank: int = Field(default=0, ge=0)
    publish: Literal["folder", "adapter", "nccl"] = "folder"
    versions_kept: int = Field(default=4, ge=2)
    checkpoint_every: int = Field(default=1, ge=1)
    engine_kl_alert: float = Field(default=0.1, gt=0)
    probe_tolerance: float | None = Field(default=None, gt=0)
    seed: int = 0

    @field_validator("publish")
    @classmethod
    def _an_adapter_is_trained(cls, publish: str, values: ValidationInfo) -> str:
        if publish == "adapter" and not values.data.get("lora_rank"):
            raise ValueError('expected lora_rank above 0 with "adapter"')
        return publish

    @property
    def probe_nats(self) -> float:
        """The tolerance in force."""
        return PROBE_NATS[self.publish_dtype] if self.probe_tolerance is None else self.probe_tolerance


def check_knobs(values: Mapping[str, object]) -> LearnerExperiment:
    """Raises ValueError naming every key that is none, with those that are, and every value that cannot be."""
    unknown = sorted(set(values) - set(LearnerExperiment.model_fields))
    if unknown:
        known = ", ".join(LearnerExperiment.model_fields)
        raise ValueError(
            f"learner.{', learner.'.join(unknown)}: the learner has no such knob; expected some of {known}"
        )
    try:
        return LearnerExperiment.model_validate(values)
    except ValidationError as error:
        wrong = [
            f"learner.{'.'.join(map(str, one['loc']))}: was {one['input']!r}; {one['msg']}" for one in error.errors()
        ]
        raise ValueError("; ".join(wrong)) from error


def read_learner_experiment(path: Path | None) -> LearnerExperiment:
    """None is the defaults. Raises ValueError naming file and key."""
    if path is None:
        return LearnerExperiment()
    try:
        return check_knobs(tomllib.loads(path.read_text()))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error
