"""Drawing tokens: float32, exact, and repeatable from one uniform number a token.

Dimensions: B rows, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """How the next token of one row is drawn. `uniform` is in [0, 1); temperature 0 takes the likeliest token."""

    temperature: float
    top_p: float
    uniform: float


@torch.inference_mode()
def sample(logits_BV: Tensor, draws: Sequence[Draw]) -> tuple[list[int], list[float]]:
    """Returns for each row the drawn token and its natural-log probability at temperature 1 without truncation.

    That probability is the policy's own, whatever the sampling settings: vLLM's default `raw_logprobs`.
    """
    logits_BV = logits_BV.float()
    logprobs_BV = torch.log_softmax(logits_BV, dim=-1)
    temperature_B1 = torch.tensor([[draw.temperature or 1.0] for draw in draws])
    # float64 from here on: the running sum over a vocabulary must not lose rare tokens.
    weights_BV = torch.softmax((logits_BV / temperature_B1).double(), dim=-1)
    if any(draw.top_p < 1.0 for draw in draws):
        weights_BV = _nucleus(weights_BV, torch.tensor([[draw.top_p] for draw in draws], dtype=torch.float64))
    cumulative_BV = weights_BV.cumsum(dim=-1)
    uniform_B1 = torch.tensor([[draw.uniform] for draw in draws], dtype=torch.float64)
    drawn_B = torch.searchsorted(cumulative_BV, uniform_B1 * cumulative_BV[:, -1:], right=True)[:, 0]
    greedy_B = torch.tensor([draw.temperature == 0.0 for draw in draws])
    chosen_B = torch.where(greedy_B, logits_BV.argmax(dim=-1), drawn_B.clamp_(max=logits_BV.shape[1] - 1))
    return chosen_B.tolist(), logprobs_BV.gather(1, chosen_B[:, None])[:, 0].tolist()


def _nucleus(weights_BV: Tensor, top_p_B1: Tensor) -> Tensor:
    """Keeps the fewest likeliest tokens that hold `top_p` of the probability; the likeliest one always."""
    ordered_BV, order_BV = weights_BV.sort(dim=-1, descending=True)
    before_BV = ordered_BV.cumsum(dim=-1) - ordered_BV
    kept_BV = torch.where(before_BV < top_p_B1, ordered_BV, torch.zeros_like(ordered_BV))
    return torch.zeros_like(weights_BV).scatter_(1, order_BV, kept_BV)
