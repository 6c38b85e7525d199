"""What every way of publishing shares: calls to a running engine, and the proof that it serves what it should.

Belongs to prover.policies.publish, which says what a proof is for.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from prover.policies.addresses import bearer

Score = Callable[[Sequence[int], Sequence[int]], Awaitable[Sequence[float]]]
"""(context token ids, sampled token ids) -> the trainer's log-probability of each sampled token, in nats."""

_M = TypeVar("_M", bound=BaseModel)

_TRIES = 3
_PAUSE_S = 0.5
_NOT_OFFERED = (404, 405)


class CallFailed(Exception):
    """One call of a publish went wrong, or its proof did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What the engine is asked to continue, and how far its log-probabilities may be from the trainer's, in nats."""

    context_token_ids: tuple[int, ...]
    score: Score
    tolerance: float = 0.05
    max_tokens: int = 16


class Card(BaseModel):
    """A model that an engine lists.

    Attributes:
        root: the folder that it was loaded from, where the engine says so.
        parent: of an adapter, the model that it adapts.
        weights_version: of the embedded engine's weights.
    """

    id: str
    root: str | None = None
    parent: str | None = None
    weights_version: str | None = None


class _Choice(BaseModel):
    class _Logprobs(BaseModel):
        token_logprobs: list[float]

    token_ids: list[int]
    logprobs: _Logprobs


class _Completion(BaseModel):
    choices: list[_Choice]


class _Cards(BaseModel):
    data: list[Card]


class _WeightInfo(BaseModel):
    weight_version: str


class _WorldSize(BaseModel):
    world_size: int


class _Reset(BaseModel):
    success: bool = True


class Serving:
    """A running engine, for as long as one publish takes."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def post(self, path: str, body: object = None, *, also: Sequence[int] = ()) -> httpx.Response:
        """Raises CallFailed, but not for the statuses in `also`."""
        return await self._ask("POST", path, body, also=also)

    async def post_where_offered(self, path: str, body: object = None) -> httpx.Response:
        """The same for what not every engine has. Raises CallFailed."""
        return await self._ask("POST", path, body, also=_NOT_OFFERED)

    async def post_once(self, path: str, body: object = None) -> httpx.Response:
        """For a call that another process takes part in, and which cannot be made again. Raises CallFailed."""
        return await self._ask("POST", path, body, tries=1)

    async def cards(self) -> list[Card]:
        """What the engine lists: adapters after the model that they adapt, the one loaded last at the end."""
        return _read(_Cards, await self._ask("GET", "/v1/models")).data

    async def weight_version(self) -> str:
        """What was published last into a vLLM in its development mode; "default" where nothing was."""
        return _read(_WeightInfo, await self._ask("GET", "/weight_info")).weight_version

    async def workers(self) -> int:
        """Processes that each hold a part of the model or all of it (vLLM)."""
        return _read(_WorldSize, await self._ask("GET", "/get_world_size?include_dp=true")).world_size

    async def reset_prefix_cache(self) -> None:
        """Forgets what was computed by other weights. Raises CallFailed, also where the engine says that it has not."""
        answer = await self.post_where_offered("/reset_prefix_cache")
        if answer.is_success and answer.content and not _read(_Reset, answer).success:
            raise CallFailed("/reset_prefix_cache: the engine kept its cache; expected no request to be using it")

    async def prove(self, model: str, probe: Probe) -> float:
        """The greatest difference between trainer and engine over the probe's tokens, in nats. Raises CallFailed where
        it is above the probe's tolerance."""
        body = {
            "model": model,
            "prompt": list(probe.context_token_ids),
            "max_tokens": probe.max_tokens,
            "temperature": 1.0,
            "seed": 0,
            "logprobs": 1,
            "return_token_ids": True,
        }
        choice = _read(_Completion, await self.post("/v1/completions", body)).choices[0]
        return await _compare(choice, probe)

    async def _ask(
        self, method: str, path: str, body: object = None, *, also: Sequence[int] = (), tries: int = _TRIES
    ) -> httpx.Response:
        """Nearly every one of these calls may be made twice, so lost connections and 5xx are tried again."""
        failure = ""
        for attempt in range(tries):
            if attempt:
                await asyncio.sleep(_PAUSE_S * attempt)
            try:
                answer = await self._http.request(method, path, json=body)
            except httpx.TransportError as error:
                failure = f"{type(error).__name__}: {error}"
                continue
            if answer.is_success or answer.status_code in also:
                return answer
            failure = f"{answer.status_code}: {answer.text[:1000]}"
            if answer.status_code < 500:
                break
        raise CallFailed(f"{str(self._http.base_url).rstrip('/')}{path}: {failure}")


@asynccontextmanager
async def connect(base_url: str, *, timeout_s: float, api_key: str) -> AsyncGenerator[Serving]:
    """`base_url` without "/v1". `timeout_s` is for each call. `api_key` is sent as a bearer token; empty sends none."""
    headers = bearer(api_key)
    async with httpx.AsyncClient(base_url=base_url, timeout=timeout_s, headers=headers, trust_env=False) as http:
        yield Serving(http)


async def _compare(choice: _Choice, probe: Probe) -> float:
    engine = choice.logprobs.token_logprobs
    trainer = await probe.score(probe.context_token_ids, choice.token_ids)
    if not len(engine) == len(trainer) == len(choice.token_ids) > 0:
        raise CallFailed(
            f"probe: {len(choice.token_ids)} tokens, {len(engine)} log-probabilities of the engine, {len(trainer)} of "
            "the trainer; expected as many of each, and one at least"
        )
    difference = max(abs(mine - theirs) for mine, theirs in zip(trainer, engine, strict=True))
    if not difference <= probe.tolerance:
        raise CallFailed(
            f"probe: log-probabilities of trainer and engine differ by {difference:.4g} nats; "
            f"expected at most {probe.tolerance:g}"
        )
    return difference


def _read(model: type[_M], answer: httpx.Response) -> _M:
    try:
        return model.model_validate_json(answer.content)
    except ValidationError as error:
        raise CallFailed(f"{answer.request.url}: answered what was not expected: {error}") from error
