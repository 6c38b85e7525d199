"""The policy as the trainer sees it: log-probabilities of sampled tokens, many sequences in one forward pass.

Dimensions: T tokens of a pack; N sampled tokens of it; V vocabulary; H query heads; K key heads; D head size.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface, AutoModelForCausalLM

from services.learner.batches import Pack

_PACKED = "prover_packed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """Of the sampled tokens of a pack, in their order, in nats. Entropies carry no gradient."""

    logprobs_N: Tensor
    entropies_N: Tensor


def load_model(folder: Path) -> nn.Module:
    """The causal language model of a weights folder, in float32. Raises ValueError where there is none."""
    config = read_config(folder)
    packs = _attends_fully(config)
    if packs:
        AttentionInterface.register(_PACKED, packed_attention)
    try:
        return AutoModelForCausalLM.from_pretrained(
            str(folder),
            dtype=torch.float32,
            attn_implementation=_PACKED if packs else "sdpa",
            local_files_only=True,
            use_safetensors=True,
        )
    except (OSError, RuntimeError, ValueError, SafetensorError) as error:
        raise ValueError(f"weights: {folder}: {error}") from error


def read_config(folder: Path) -> dict[str, Any]:
    """config.json. Raises ValueError naming the file."""
    path = folder / "config.json"
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"weights: {path}: {error}; expected a model's config") from error


def may_pack(model: nn.Module) -> bool:
    """Several sequences may share a forward pass. Otherwise packs must hold one sequence each: the model looks at
    neighbours by other means than full attention (sliding windows, recurrent layers)."""
    config: Any = model.config
    return config._attn_implementation == _PACKED


def score(model: nn.Module, pack: Pack, *, device: torch.device, dtype: torch.dtype) -> Scored:
    """One forward pass. Only the places from which a token was sampled go through the vocabulary."""
    ids_T = torch.from_numpy(pack.token_ids_T).to(device)
    sampled_N = torch.from_numpy(pack.sampled_N).to(device)
    extra = {"lengths": pack.lengths} if may_pack(model) else {}
    with torch.autocast(device.type, dtype=dtype, enabled=dtype != torch.float32):
        answer = model(
            input_ids=ids_T[None],
            position_ids=torch.from_numpy(pack.positions_T).to(device)[None],
            logits_to_keep=sampled_N - 1,
            use_cache=False,
            **extra,
        )
    logits_NV = answer.logits[0].float()
    logprobs_N = -functional.cross_entropy(logits_NV, ids_T[sampled_N], reduction="none")
    with torch.no_grad():
        distribution_NV = torch.log_softmax(logits_NV, dim=-1)
        entropies_N = -(distribution_NV.exp() * distribution_NV).sum(-1)
    return Scored(logprobs_N=logprobs_N, entropies_N=entropies_N)


def packed_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Causal attention within each sequence of a pack: [1, heads, T, D] in, [1, T, H, D] out.

    The signature is that of transformers' attention functions; `lengths` comes through the model's own keywords.
    Work and memory grow with the squares of the sequences' lengths, not of the pack's.
    """
    if options.get("softcap") is not None or options.get("sliding_window") is not None:
        raise ValueError("attention: soft caps and sliding windows are not supported in packs")
    lengths: tuple[int, ...] = options["lengths"]
    outputs = [
        functional.scaled_dot_product_attention(
            query_HtD, key_KtD, value_KtD, is_causal=True, scale=options["scaling"], enable_gqa=True
        )
        for query_HtD, key_KtD, value_KtD in zip(
            query.split(lengths, dim=2), key.split(lengths, dim=2), value.split(lengths, dim=2), strict=True
        )
    ]
    return torch.cat(outputs, dim=2).transpose(1, 2), None


def _attends_fully(config: dict[str, Any]) -> bool:
    kinds = set(config.get("layer_types") or ["full_attention"])
    windowed = config.get("sliding_window") is not None and config.get("use_sliding_window", True)
    capped = config.get("attn_logit_softcapping") is not None
    return kinds == {"full_attention"} and not windowed and not capped
