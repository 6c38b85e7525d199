"""The loss: clipped policy gradient over sampled tokens, blind to where the advantages came from.

Dimensions: N sampled tokens. All arguments and results are of the tokens that the policy sampled; observation tokens
never come here.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from prover.training.learner_experiment import LearnerExperiment

_MAX_LOG_RATIO = 20.0
"""exp(20) is far beyond any clip, and finite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLoss:
    """What the loss is made of.

    Attributes:
        loss: scalar, with gradient: the sum over the tokens of this pack, weighted for the whole batch.
        clipped_N: whether the clip took the gradient of a token.
        engine_kl_N: nats; estimate of KL(engine || trainer) from the sampled token, never negative.
        reference_kl_N: nats; the same of KL(trainer || reference); zeros without a reference.
    """

    loss: Tensor
    clipped_N: Tensor
    engine_kl_N: Tensor
    reference_kl_N: Tensor


def policy_loss(
    logprobs_N: Tensor,
    *,
    sampling_logprobs_N: Tensor,
    advantages_N: Tensor,
    weights_N: Tensor,
    experiment: LearnerExperiment,
    reference_logprobs_N: Tensor | None = None,
) -> TokenLoss:
    """The surrogate of PPO (arXiv 1707.06347) with a low and a high clip of their own (DAPO, arXiv 2503.14476):

        loss = -sum_n weight_n * w_n * min(r_n A_n, clip(r_n, 1 - low, 1 + high) A_n) + kl_weight * KL_n

    `experiment.ratio` decides what r compares with. "engine": r = exp(logprob - sampling logprob), and w = 1.
    "trainer": r = exp(logprob - the same, held constant), which is 1 in value and carries the gradient, and
    w = min(exp(logprob - sampling logprob), importance_cap), held constant: truncated importance sampling, for
    engines whose arithmetic is not the trainer's.

    The KL to a reference is the estimator exp(d) - d - 1 with d = reference - policy (k3 of Schulman's note).
    """
    mismatch_N = _bounded(logprobs_N - sampling_logprobs_N)
    if experiment.ratio == "engine":
        ratio_N = mismatch_N.exp()
        importance_N = torch.ones_like(ratio_N)
    else:
        ratio_N = (logprobs_N - logprobs_N.detach()).exp()
        importance_N = mismatch_N.detach().exp().clamp(max=experiment.importance_cap)
    clipped_ratio_N = ratio_N.clamp(1 - experiment.clip_low, 1 + experiment.clip_high)
    plain_N, clipped_N = ratio_N * advantages_N, clipped_ratio_N * advantages_N
    loss_N = -importance_N * torch.minimum(plain_N, clipped_N)
    reference_kl_N = torch.zeros_like(logprobs_N)
    if reference_logprobs_N is not None:
        reference_kl_N = _k3(_bounded(reference_logprobs_N - logprobs_N))
        loss_N = loss_N + experiment.kl_weight * reference_kl_N
    return TokenLoss(
        loss=(weights_N * loss_N).sum(),
        clipped_N=(clipped_N < plain_N).detach(),
        engine_kl_N=_k3(mismatch_N.detach()),
        reference_kl_N=reference_kl_N.detach(),
    )


def _bounded(log_ratio_N: Tensor) -> Tensor:
    return log_ratio_N.clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO)


def _k3(log_ratio_N: Tensor) -> Tensor:
    """exp(d) - d - 1 for d = log q(x) - log p(x) and x from p: unbiased for KL(p || q), and never negative."""
    return log_ratio_N.exp() - log_ratio_N - 1
