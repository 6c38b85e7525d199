"""Low-rank adapters (LoRA, arXiv 2106.09685) by peft, for models too large to train as a whole."""

from typing import Any

from torch import nn


def add_adapters(model: nn.Module, *, rank: int) -> nn.Module:
    """The model with adapters on every linear layer but the last; only they are trained. ValueError without peft."""
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise ValueError(f"lora_rank: was {rank}, which needs peft; expected 0, or `pip install peft`") from error
    base: Any = model
    return get_peft_model(base, LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", lora_dropout=0.0))
