"""One forward pass over many sequences at different places, each with keys and values of its own.

The model's own modules do the arithmetic; what is ours is the batching: the new tokens of all sequences run through the
linear layers as one matrix, and only attention looks at each sequence by itself. So a step may mix prompts and single
tokens, and there is no padding.

Dimensions: T new tokens of all sequences, t of one; S tokens of one sequence so far; L layers; H query heads; K key
heads; G = H / K; D head size; V vocabulary; B sequences.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional
from transformers import LlamaForCausalLM

_GROWTH = 256
"""Keys and values are allocated in steps of this many tokens: one turn rarely needs a second allocation."""


class KeyValues:
    """The keys and values of one sequence, for as many of its tokens as were computed."""

    def __init__(self, shape: tuple[int, int, int], dtype: torch.dtype) -> None:
        """`shape` is (L, K, D)."""
        self._shape = shape
        self._dtype = dtype
        self._token_ids: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        self._buffer = torch.empty(0)
        self.length = 0

    @staticmethod
    def of(model: LlamaForCausalLM) -> "KeyValues":
        """An empty one of the right shape."""
        config: Any = model.config
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        return KeyValues((config.num_hidden_layers, config.num_key_value_heads, head_dim), model.dtype)

    @property
    def token_ids(self) -> NDArray[np.int32]:
        """The tokens whose keys and values are here."""
        return self._token_ids[: self.length]

    @property
    def num_bytes(self) -> int:
        """What it holds in memory, spare room included."""
        return self._buffer.element_size() * self._buffer.nelement()

    def reserve(self, length: int) -> None:
        """Makes room for `length` tokens in all."""
        if length <= len(self._token_ids):
            return
        capacity = -(-length // _GROWTH) * _GROWTH
        layers, key_heads, head_dim = self._shape
        buffer = torch.empty(layers, 2, key_heads, capacity, head_dim, dtype=self._dtype)
        token_ids = np.empty(capacity, dtype=np.int32)
        if self.length:
            buffer[:, :, :, : self.length] = self._buffer[:, :, :, : self.length]
            token_ids[: self.length] = self.token_ids
        self._buffer, self._token_ids = buffer, token_ids

    def prefix(self, length: int, *, room: int) -> "KeyValues":
        """A copy of the first `length` tokens, with room for `room` in all."""
        copy = KeyValues(self._shape, self._dtype)
        copy.reserve(max(length, room))
        copy._buffer[:, :, :, :length] = self._buffer[:, :, :, :length]
        copy._token_ids[:length] = self._token_ids[:length]
        copy.length = length
        return copy

    def common_prefix(self, token_ids: NDArray[np.int32], *, beyond: int = 0) -> int:
        """How many leading tokens are the same; 0 where that is not more than `beyond` (which saves comparing)."""
        most = min(self.length, len(token_ids))
        if most <= beyond or self._token_ids[beyond] != token_ids[beyond]:
            return 0
        different = np.flatnonzero(self._token_ids[:most] != token_ids[:most])
        same = int(different[0]) if len(different) else most
        return same if same > beyond else 0

    def write(self, layer: int, keys_KtD: Tensor, values_KtD: Tensor) -> tuple[Tensor, Tensor]:
        """Stores the new tokens of one layer behind those that are there. Returns all keys, all values, [K, S, D]."""
        end = self.length + keys_KtD.shape[1]
        stored = self._buffer[layer]
        stored[0, :, self.length : end] = keys_KtD
        stored[1, :, self.length : end] = values_KtD
        return stored[0, :, :end], stored[1, :, :end]

    def advance(self, token_ids: Sequence[int]) -> None:
        """All layers have written these tokens."""
        self._token_ids[self.length : self.length + len(token_ids)] = token_ids
        self.length += len(token_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """The next tokens of one sequence, and what was computed of it before."""

    token_ids: Sequence[int]
    cache: KeyValues


@torch.inference_mode()
def forward(model: LlamaForCausalLM, chunks: Sequence[Chunk]) -> Tensor:
    """Computes all chunks and extends their caches. Returns float32 logits [B, V], after the last token of each."""
    decoder: Any = model.model
    for chunk in chunks:
        chunk.cache.reserve(chunk.cache.length + len(chunk.token_ids))
    ids_T = torch.tensor([token for chunk in chunks for token in chunk.token_ids])
    positions_T = torch.cat(
        [torch.arange(chunk.cache.length, chunk.cache.length + len(chunk.token_ids)) for chunk in chunks]
    )
    hidden = decoder.embed_tokens(ids_T)
    cos, sin = decoder.rotary_emb(hidden[None], positions_T[None])
    rotation = (cos[0][:, None, :], sin[0][:, None, :])
    for index, layer in enumerate(decoder.layers):
        hidden = hidden + _attention(layer, index, hidden, rotation, chunks)
        hidden = hidden + layer.mlp(_norm(layer.post_attention_layernorm, hidden))
    last_B = torch.tensor([len(chunk.token_ids) for chunk in chunks]).cumsum(0) - 1
    logits_BV = model.lm_head(_norm(decoder.norm, hidden[last_B]))
    for chunk in chunks:
        chunk.cache.advance(chunk.token_ids)
    return logits_BV.float()


def _attention(
    layer: Any, index: int, hidden: Tensor, rotation: tuple[Tensor, Tensor], chunks: Sequence[Chunk]
) -> Tensor:
    attention = layer.self_attn
    head_dim = attention.head_dim
    normed = _norm(layer.input_layernorm, hidden)
    query = _rotate(attention.q_proj(normed).unflatten(-1, (-1, head_dim)), rotation) * attention.scaling
    key = _rotate(attention.k_proj(normed).unflatten(-1, (-1, head_dim)), rotation)
    value = attention.v_proj(normed).unflatten(-1, (-1, head_dim))
    outputs: list[Tensor] = []
    start = 0
    for chunk in chunks:
        end = start + len(chunk.token_ids)
        keys, values = chunk.cache.write(index, key[start:end].transpose(0, 1), value[start:end].transpose(0, 1))
        outputs.append(_attend(query[start:end], keys, values))
        start = end
    return attention.o_proj(torch.cat(outputs))


def _attend(query_tHD: Tensor, keys_KSD: Tensor, values_KSD: Tensor) -> Tensor:
    """Causal attention of the last t tokens of a sequence over all S of it. Returns [t, H * D]."""
    new, heads, head_dim = query_tHD.shape
    key_heads, total, _ = keys_KSD.shape
    groups = heads // key_heads
    query = query_tHD.reshape(new, key_heads, groups, head_dim).permute(1, 2, 0, 3).reshape(key_heads, -1, head_dim)
    scores = torch.matmul(query, keys_KSD.transpose(1, 2))
    if new > 1:
        future = torch.ones(new, total, dtype=torch.bool).triu_(total - new + 1)
        scores.view(key_heads, groups, new, total).masked_fill_(future, float("-inf"))
    mixed = torch.matmul(torch.softmax(scores, dim=-1), values_KSD)
    return mixed.view(key_heads, groups, new, head_dim).permute(2, 0, 1, 3).reshape(new, heads * head_dim)


def _rotate(heads_THD: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Rotary position embedding in the layout of Llama checkpoints: the two halves of a head are the two axes."""
    cos, sin = rotation
    first, second = heads_THD.chunk(2, dim=-1)
    return heads_THD * cos + torch.cat((-second, first), dim=-1) * sin


def _norm(module: Any, hidden: Tensor) -> Tensor:
    return functional.rms_norm(hidden, (hidden.shape[-1],), module.weight, module.variance_epsilon)
