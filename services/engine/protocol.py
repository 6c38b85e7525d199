"""The part of vLLM's HTTP protocol that we speak, as pydantic models.

Field names are vLLM's. What vLLM has and we do not is refused by name rather than ignored, so that nobody believes a
sampling setting was in force that was not. Our own: `weights_version` in every answer.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def _as_prompts(value: Any) -> Any:
    """A flat list of token ids is one prompt."""
    return [value] if isinstance(value, list) and value and isinstance(value[0], int) else value


TokenIds = Annotated[list[int], Field(min_length=1)]
Prompts = Annotated[list[TokenIds], BeforeValidator(_as_prompts), Field(min_length=1)]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


class CompletionRequest(_Request):
    """POST /v1/completions. `prompt` is one list of token ids or several; each gets `n` answers.

    `top_k`, `min_p` and the penalties may be named, and only as what leaves the distribution as it is.
    """

    model: str | None = None
    prompt: Prompts
    n: int = Field(default=1, ge=1, le=128)
    max_tokens: int = Field(default=16, ge=1)
    temperature: float = Field(default=1.0, ge=0.0)
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    top_k: int = Field(default=0, ge=-1, le=0)
    min_p: float = Field(default=0.0, ge=0.0, le=0.0)
    repetition_penalty: float = Field(default=1.0, ge=1.0, le=1.0)
    presence_penalty: float = Field(default=0.0, ge=0.0, le=0.0)
    frequency_penalty: float = Field(default=0.0, ge=0.0, le=0.0)
    stop_token_ids: list[int] = []
    ignore_eos: bool = False
    seed: int | None = Field(default=None, ge=0)
    logprobs: int | None = Field(default=None, ge=0)
    return_token_ids: bool = False
    stream: Literal[False] = False


class Logprobs(BaseModel):
    """One entry for each sampled token; the alternatives are not listed."""

    tokens: list[str]
    token_logprobs: list[float]
    text_offset: list[int]
    top_logprobs: None = None


class Choice(BaseModel):
    """One answer. `text` leaves the stop token out, `token_ids` has it, as in vLLM."""

    index: int
    text: str
    logprobs: Logprobs | None
    finish_reason: str
    stop_reason: int | None
    token_ids: list[int] | None
    prompt_token_ids: list[int] | None


class PromptDetails(BaseModel):
    """`cached_tokens`: tokens of the prompts whose keys and values were there already."""

    cached_tokens: int


class Usage(BaseModel):
    """Tokens, summed over the answers."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails


class CompletionAnswer(BaseModel):
    """Answers in the order of the prompts, the `n` of each together."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    weights_version: str
    choices: list[Choice]
    usage: Usage


class TokenizeRequest(_Request):
    """POST /tokenize."""

    model: str | None = None
    prompt: str
    add_special_tokens: Literal[False] = False


class TokenizeAnswer(BaseModel):
    """Token ids of a text."""

    count: int
    max_model_len: int
    tokens: list[int]
    weights_version: str


class DetokenizeRequest(_Request):
    """POST /detokenize."""

    model: str | None = None
    tokens: list[int]


class DetokenizeAnswer(BaseModel):
    """The text of token ids."""

    prompt: str
    weights_version: str


class ModelCard(BaseModel):
    """The one model there is."""

    id: str
    object: Literal["model"] = "model"
    owned_by: Literal["prover"] = "prover"
    root: str
    max_model_len: int
    weights_version: str


class ModelList(BaseModel):
    """GET /v1/models."""

    object: Literal["list"] = "list"
    data: list[ModelCard]


class RpcRequest(_Request):
    """POST /collective_rpc: `reload_weights`, with the folder in `kwargs.weights_path`."""

    method: str
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    timeout: float | None = None


class RpcAnswer(BaseModel):
    """vLLM answers one result for each worker; there is one worker."""

    results: list[None]
    weights_version: str


class StateAnswer(BaseModel):
    """Of /pause, /resume and /reset_prefix_cache."""

    status: Literal["paused", "resumed", "reset"]
    weights_version: str
