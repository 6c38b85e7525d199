"""What a policy engine is to the rest of the system: token ids in, token ids and log-probabilities out.

The one implementation is `prover.policies.client.PolicyClient`, which speaks the part of vLLM's HTTP protocol that vLLM
and the embedded engine share.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How tokens are sampled. The defaults are the training settings of the method: the policy as it is.

    Attributes:
        temperature: 0 is greedy; log-probabilities are always those of temperature 1 unless the engine says otherwise.
        max_tokens: most tokens of one turn.
        stop_token_ids: sampling stops after any of these; the stop token is part of the sampled tokens.
        seed: makes one request repeatable where the engine supports it.
        version: which of the engine's versions samples, where it serves several side by side (`PolicyInfo.versions`);
            None is the present one.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 32
    stop_token_ids: tuple[int, ...] = ()
    seed: int | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One sampled continuation of one prompt.

    Attributes:
        token_ids: what was sampled, the stop token included.
        logprobs: natural-log probability of each of them.
        text: the same for people; never tokenised again.
        finish_reason: "stop" or "length".
        policy_version: the version of the weights that sampled it, as the engine said in this very answer.
    """

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    text: str
    finish_reason: str
    policy_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyInfo:
    """Which model an engine serves, at which version, and how many tokens it can read.

    `versions` are those that can be asked for by name beside the present one, such as LoRA adapters that are loaded.
    """

    model: str
    version: str
    max_context: int
    versions: tuple[str, ...] = ()


class PolicyError(Exception):
    """The engine did not answer, or answered that it cannot. Says what was asked and what came back."""


class ContextTooLong(PolicyError):
    """The prompt and the tokens asked for do not fit into what the engine can read."""


class Policy(Protocol):
    """Anything that can be sampled from. Bound to one engine; safe for many requests in flight on one event loop."""

    async def complete(self, context_token_ids: Sequence[int], sampling: Sampling) -> Completion:
        """Samples one turn. Raises PolicyError; ContextTooLong where the context has outgrown the engine."""
        ...

    async def tokenize(self, text: str) -> tuple[int, ...]:
        """The engine's own tokens for a text, without special tokens added."""
        ...

    async def info(self) -> PolicyInfo:
        """What the engine serves now."""
        ...
