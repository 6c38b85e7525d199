"""Low-rank adapters (LoRA, arXiv 2106.09685) by peft, for models too large to train as a whole."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from services.learner.folders import write_folder


def add_adapters(model: nn.Module, *, rank: int) -> nn.Module:
    """The model with adapters on every linear layer but the last; only they are trained. ValueError without peft."""
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise ValueError(f"lora_rank: was {rank}, which needs peft; expected 0, or `pip install peft`") from error
    base: Any = model
    return get_peft_model(base, LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", lora_dropout=0.0))


def merge_adapters(model: nn.Module, state: Mapping[str, Tensor]) -> nn.Module:
    """The plain model of which `state`, of a model with adapters, is the sum. `model`, of the same kind, is used up."""
    adapted: Any = model
    adapted.load_state_dict(state)
    return adapted.merge_and_unload()


def write_adapter(
    folder: Path, model: nn.Module, state: Mapping[str, Tensor], *, version: str, dtype: torch.dtype
) -> None:
    """Writes the adapter alone, as peft and vLLM load it: adapter_model.safetensors, adapter_config.json, and
    prover.json with the version. `state` is `model`'s, undivided. Raises WriteFailed."""
    from peft import get_peft_model_state_dict

    adapted: Any = model
    found = get_peft_model_state_dict(adapted, state_dict=dict(state), save_embedding_layers=False)
    numbers = {name: tensor.detach().to("cpu", dtype).contiguous() for name, tensor in found.items()}

    def fill(unfinished: Path) -> None:
        save_file(numbers, str(unfinished / "adapter_model.safetensors"), metadata={"format": "pt"})
        adapted.peft_config["default"].save_pretrained(str(unfinished))
        (unfinished / "prover.json").write_text(json.dumps({"version": version}))

    write_folder(folder, fill)
