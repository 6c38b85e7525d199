"""One client for both policy engines: vLLM, and the embedded engine that speaks the part of its protocol used here.

POST /v1/completions with a list of token ids, `return_token_ids` and `logprobs`; POST /tokenize; GET /v1/models.

The version of the weights comes out of each answer. The embedded engine says it in the field `weights_version`. vLLM
has no such field. In its development mode it keeps the version that was published last (GET /weight_info), and a turn
counts where that was the same before it and after it. Elsewhere the version is the answer's `model`: serve each version
under a name of its own. Where vLLM loads adapters at run time (prover.policies.adapters), a turn asks for the one that
was loaded last, by its name, unless a model was named here: an adapter loaded as "v7" answers as "v7".
"""

import asyncio
import random
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from prover.policies.addresses import KEEP_ALIVE, bearer
from prover.policies.policy import Completion, ContextTooLong, PolicyError, PolicyInfo, Sampling

_ATTEMPTS = 5
_FIRST_DELAY_S = 0.1
_LONGEST_DELAY_S = 2.0
_BUSY = frozenset({429, 503})
_CONNECT_S = 10.0
_TOO_LONG = ("maximum context length", "context_length_exceeded", "longer than the maximum model length")
"""How vLLM (by its messages) and the embedded engine (also by its type) say that a prompt does not fit."""

_METHOD_NOT_ALLOWED = 405
_NOT_OFFERED = frozenset({403, 404, _METHOD_NOT_ALLOWED})
_UNPUBLISHED = "default"
"""What vLLM calls the weights that it was started with."""

_AS_IT_IS = {
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}
"""Off, by name: what a request leaves out, vLLM takes from the model's generation_config.json, and the tokens would not
be the policy's own."""

_CACHED_TEXTS = 4096
"""Texts whose tokens are remembered. Observations repeat a lot, and a tokenizer never changes under a client."""

_M = TypeVar("_M", bound=BaseModel)


class _Logprobs(BaseModel):
    token_logprobs: list[float]


class _Choice(BaseModel):
    text: str
    finish_reason: str
    token_ids: list[int]
    logprobs: _Logprobs


class _Answer(BaseModel):
    model: str
    weights_version: str | None = None
    choices: list[_Choice]


class _Tokens(BaseModel):
    tokens: list[int]


class _Card(BaseModel):
    """A model that is listed. Adapters name their `parent`, and not how much they read, which is as much as it does."""

    id: str
    max_model_len: int | None = None
    parent: str | None = None
    weights_version: str | None = None


class _WeightInfo(BaseModel):
    weight_version: str


class _Cards(BaseModel):
    data: list[_Card]


class PolicyClient:
    """A `Policy` behind an HTTP address. Belongs to the event loop that first uses it; `aclose` it there.

    At most `max_in_flight` requests are under way at once; more wait here. Lost connections and answers 429 and 503
    are tried again with growing pauses, 5 times in all and on for as long as the client has patience: nothing is
    counted twice, since an engine keeps no state of a completion. Everything else is raised at once.
    """

    def __init__(
        self,
        base_url: str,
        *,
        model: str | None = None,
        timeout_s: float = 600.0,
        max_in_flight: int = 64,
        patience_s: float = 0.0,
        api_key: str = "",
    ) -> None:
        """`base_url` without "/v1". `model` None takes the adapter that was loaded last, or else the first model that
        the engine lists.

        `timeout_s`: how long an engine may take for one answer: long turns on a busy one take minutes. One that has
        vanished from the network is noticed by TCP in half a minute.
        `patience_s`: how long a request outlasts an engine that restarts. An episode under way then goes on where it
        stood, since its turns are known here.
        `api_key` goes along with every request as a bearer token; empty sends none.
        """
        self._base_url = base_url.rstrip("/")
        self._model = model
        self._known: PolicyInfo | None = None
        self._loads_adapters: bool | None = None
        self._keeps_versions = True
        self._tokens: OrderedDict[str, tuple[int, ...]] = OrderedDict()
        self._patience_s = patience_s
        self._places = asyncio.Semaphore(max_in_flight)
        limits = httpx.Limits(max_connections=max_in_flight, max_keepalive_connections=max_in_flight)
        # Waiting for a connection is waiting for a place, which has no limit of its own.
        timeout = httpx.Timeout(timeout_s, connect=min(timeout_s, _CONNECT_S), pool=None)
        # Engines are addressed, not browsed to: proxies of the environment are for the outside world.
        transport = httpx.AsyncHTTPTransport(limits=limits, trust_env=False, socket_options=KEEP_ALIVE)
        self._http = httpx.AsyncClient(
            base_url=self._base_url, transport=transport, timeout=timeout, headers=bearer(api_key), trust_env=False
        )

    async def complete(self, context_token_ids: Sequence[int], sampling: Sampling) -> Completion:
        """Samples one turn. Raises PolicyError; ContextTooLong where the context has outgrown the engine."""
        model, max_context = await self._served(sampling.version)
        if len(context_token_ids) + sampling.max_tokens > max_context:
            raise ContextTooLong(
                f"context: {len(context_token_ids)} tokens and {sampling.max_tokens} to sample; "
                f"expected at most {max_context} together"
            )
        body: dict[str, Any] = {
            "model": model,
            "prompt": list(context_token_ids),
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            **_AS_IT_IS,
            "stop_token_ids": list(sampling.stop_token_ids),
            "logprobs": 1,
            "return_token_ids": True,
        }
        if sampling.seed is not None:
            body["seed"] = sampling.seed
        return await self._complete(body)

    async def tokenize(self, text: str) -> tuple[int, ...]:
        """The engine's own tokens for a text, without special tokens added."""
        known = self._tokens.get(text)
        if known is not None:
            self._tokens.move_to_end(text)
            return known
        model, _ = await self._served()
        body = {"model": model, "prompt": text, "add_special_tokens": False}
        tokens = tuple(_read(_Tokens, await self._ask("POST", "/tokenize", body)).tokens)
        self._tokens[text] = tokens
        if len(self._tokens) > _CACHED_TEXTS:
            self._tokens.popitem(last=False)
        return tokens

    async def info(self) -> PolicyInfo:
        """What the engine serves now."""
        cards = _read(_Cards, await self._ask("GET", "/v1/models")).data
        adapters = [card for card in cards if card.parent is not None]
        wanted = adapters[-1:] or cards if self._model is None else [card for card in cards if card.id == self._model]
        longest = max((card.max_model_len or 0 for card in cards), default=0)
        if not wanted or not longest:
            served = ", ".join(card.id for card in cards) or "nothing"
            raise PolicyError(f"model: was {self._model!r}; {self._base_url} serves {served}")
        card = wanted[0]
        version = card.weights_version or await self._published() or card.id
        return PolicyInfo(
            model=card.id,
            version=version,
            max_context=card.max_model_len or longest,
            versions=tuple(card.id for card in adapters),
        )

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def _published(self) -> str:
        """The version that was published into vLLM last; empty where the engine says no such thing."""
        if not self._keeps_versions:
            return ""
        answer = await self._answer("GET", "/weight_info")
        if answer.status_code in _NOT_OFFERED:
            self._keeps_versions = False
            return ""
        version = _read(_WeightInfo, _checked(answer)).weight_version
        return "" if version == _UNPUBLISHED else version

    async def _version(self, answer: _Answer, before: str) -> str | None:
        """The version that sampled an answer; None where it may have changed meanwhile."""
        if answer.weights_version is not None:
            return answer.weights_version
        return (before or answer.model) if await self._published() == before else None

    async def _served(self, version: str | None = None) -> tuple[str, int]:
        """Model name and longest context: asked for once, since neither changes with the weights, but where weights
        are adapters with names of their own. An adapter that is asked for by name is a model of that name."""
        if self._known is None or (version is None and await self._may_load_adapters()):
            self._known = await self.info()
        return version or self._known.model, self._known.max_context

    async def _may_load_adapters(self) -> bool:
        """Whether another adapter may have been loaded since: the route that loads them takes no GET, and says so."""
        if self._loads_adapters is None:
            answer = None if self._model else await self._answer("GET", "/v1/load_lora_adapter")
            self._loads_adapters = answer is not None and answer.status_code == _METHOD_NOT_ALLOWED
        return self._loads_adapters

    async def _complete(self, body: dict[str, Any]) -> Completion:
        for attempt in range(_ATTEMPTS):
            before = await self._published()
            answer = _read(_Answer, await self._ask("POST", "/v1/completions", body))
            choice = answer.choices[0]
            version = await self._version(answer, before)
            # An engine lets go of a turn half-way, or may have, to change its weights.
            if choice.finish_reason != "abort" and version is not None:
                break
            await asyncio.sleep(_delay_s(attempt))
        else:
            raise PolicyError(
                f"{self._base_url}/v1/completions: {_ATTEMPTS} turns were aborted or may be of two versions; "
                "expected one whole"
            )
        if len(choice.token_ids) != len(choice.logprobs.token_logprobs):
            raise PolicyError(
                f"{self._base_url}/v1/completions: {len(choice.token_ids)} token ids with "
                f"{len(choice.logprobs.token_logprobs)} log-probabilities; expected one for each"
            )
        return Completion(
            token_ids=tuple(choice.token_ids),
            logprobs=tuple(choice.logprobs.token_logprobs),
            text=choice.text,
            finish_reason=choice.finish_reason,
            policy_version=version,
        )

    async def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> httpx.Response:
        return _checked(await self._answer(method, path, body))

    async def _answer(self, method: str, path: str, body: dict[str, Any] | None = None) -> httpx.Response:
        failure, attempts = "", 0
        async with self._places:
            began = time.monotonic()
            while attempts < _ATTEMPTS or time.monotonic() - began < self._patience_s:
                if attempts:
                    await asyncio.sleep(_delay_s(attempts - 1))
                attempts += 1
                try:
                    answer = await self._http.request(method, path, json=body)
                except (httpx.NetworkError, httpx.RemoteProtocolError, httpx.ConnectTimeout) as error:
                    failure = f"{type(error).__name__}: {error}"
                    continue
                except httpx.HTTPError as error:
                    raise PolicyError(f"{self._base_url}{path}: {type(error).__name__}: {error}") from error
                if answer.status_code not in _BUSY:
                    return answer
                failure = f"{answer.status_code}: {answer.text[:500]}"
        raise PolicyError(f"{self._base_url}{path}: no answer in {attempts} attempts; the last one: {failure}")


def _delay_s(attempt: int) -> float:
    """Doubles, and is spread so that many waiting clients do not come back at once."""
    return min(_FIRST_DELAY_S * 2 ** min(attempt, 10), _LONGEST_DELAY_S) * random.uniform(0.5, 1.0)


def _checked(answer: httpx.Response) -> httpx.Response:
    if answer.status_code == 200:
        return answer
    said = answer.text[:1000]
    kind = ContextTooLong if answer.status_code == 400 and any(phrase in said for phrase in _TOO_LONG) else PolicyError
    raise kind(f"{answer.request.url}: {answer.status_code}: {said}")


def _read(model: type[_M], answer: httpx.Response) -> _M:
    try:
        return model.model_validate_json(answer.content)
    except ValidationError as error:
        raise PolicyError(f"{answer.request.url}: answered what was not expected: {error}") from error
