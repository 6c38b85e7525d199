"""Low-rank adapters (LoRA, arXiv 2106.09685) by peft, for models too large to train as a whole."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn


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
