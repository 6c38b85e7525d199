"""New weights into a running policy engine, proven before they count.

Engines have answered "loaded" and gone on serving the old weights (vLLM issue 32718), or served states that a prefix
cache had kept from weights long gone. So a publish is not done when the engine says so. It is done when the engine
names the new version, where it names versions at all, and when what it samples has the log-probabilities that the
trainer computes for it. Otherwise the weights that served before are put back.

Both the embedded engine and vLLM (with `VLLM_SERVER_DEV_MODE=1`, weights on a file system that both can read) take the
same four calls: /pause, /collective_rpc reload_weights, /reset_prefix_cache, /resume. vLLM is told the version's name
too (/update_weight_version, where it has that), before it goes on. The pause lets turns in flight finish (`mode=wait`),
so that no turn is sampled from two versions.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from prover.policies.addresses import bearer

Score = Callable[[Sequence[int], Sequence[int]], Awaitable[Sequence[float]]]
"""(context token ids, sampled token ids) -> the trainer's log-probability of each sampled token, in nats."""

_M = TypeVar("_M", bound=BaseModel)

_TRIES = 3
_PAUSE_S = 0.5


class PublishFailed(Exception):
    """The new weights do not serve. Says what went wrong, what serves now, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A version that serves.

    Attributes:
        probe_difference: greatest difference between trainer and engine over the probe's tokens, in nats; 0 where the
            publisher had no trainer to compare with.
    """

    version: str
    weights_path: str
    probe_difference: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What the engine is asked to continue, and how far its log-probabilities may be from the trainer's, in nats."""

    context_token_ids: tuple[int, ...]
    score: Score
    tolerance: float = 0.05
    max_tokens: int = 16


class Publisher(Protocol):
    """A way of getting weights into an engine."""

    async def publish(
        self, weights_path: str, *, probe: Probe | None = None, previous_path: str | None = None
    ) -> Published:
        """Answers when the new weights serve and are proven. Raises PublishFailed."""
        ...


class _Choice(BaseModel):
    class _Logprobs(BaseModel):
        token_logprobs: list[float]

    token_ids: list[int]
    logprobs: _Logprobs


class _Completion(BaseModel):
    choices: list[_Choice]


class _Card(BaseModel):
    id: str
    weights_version: str | None = None


class _Cards(BaseModel):
    data: list[_Card]


class SharedStorage:
    """Weights in a folder that the engine reads: the embedded engine, and vLLM in its development mode."""

    def __init__(self, base_url: str, *, timeout_s: float = 600.0, api_key: str = "") -> None:
        """`base_url` without "/v1". `timeout_s` is for each call; a pause waits for the turns in flight. `api_key` is
        sent as a bearer token; empty sends none."""
        self._base_url = base_url.rstrip("/")
        self._timeout_s = timeout_s
        self._headers = bearer(api_key)

    async def publish(
        self, weights_path: str, *, probe: Probe | None = None, previous_path: str | None = None
    ) -> Published:
        """Answers when the new weights serve and are proven. Raises PublishFailed.

        `previous_path`: the folder to go back to where the new weights load and turn out wrong, or where an engine
        (vLLM) may have stopped half-way. The embedded engine checks a folder as a whole before it lets go of the old
        weights.
        """
        version = read_version(weights_path)
        connection = httpx.AsyncClient(
            base_url=self._base_url, timeout=self._timeout_s, headers=self._headers, trust_env=False
        )
        async with connection as http:
            try:
                await self._load(http, weights_path, version)
                difference = await self._prove(http, version, probe)
            except _Failed as failed:
                state = await self._put_back(http, previous_path)
                raise PublishFailed(f"publish of {version!r} from {weights_path}: {failed}. {state}") from failed
        return Published(version=version, weights_path=weights_path, probe_difference=difference)

    async def _load(self, http: httpx.AsyncClient, weights_path: str, version: str) -> None:
        """The engine is resumed whatever happens: a failed publish must not stop the sampling."""
        await _post(http, "/pause?mode=wait")
        try:
            call = {"method": "reload_weights", "kwargs": {"weights_path": weights_path}}
            await _post(http, "/collective_rpc", call)
            await _post(http, "/reset_prefix_cache")
            # Not there in the embedded engine, whose weights know their version, nor in a vLLM older than 0.32.
            await _post(http, "/update_weight_version", {"new_version": version}, optional=True)
        finally:
            await _post(http, "/resume")

    async def _prove(self, http: httpx.AsyncClient, version: str, probe: Probe | None) -> float:
        cards = _read(_Cards, await _ask(http, "GET", "/v1/models")).data
        served = {card.weights_version for card in cards} - {None}
        if served and version not in served:
            raise _Failed(f"the engine answered success and still names {', '.join(map(str, served))}")
        if probe is None:
            return 0.0
        body = {
            "model": cards[0].id,
            "prompt": list(probe.context_token_ids),
            "max_tokens": probe.max_tokens,
            "temperature": 1.0,
            "seed": 0,
            "logprobs": 1,
            "return_token_ids": True,
        }
        choice = _read(_Completion, await _post(http, "/v1/completions", body)).choices[0]
        return await _compare(choice, probe)

    async def _put_back(self, http: httpx.AsyncClient, previous_path: str | None) -> str:
        """What serves now, in words."""
        if previous_path is None:
            return "No earlier weights were named to go back to: ask the engine what it serves, then publish again"
        try:
            version = read_version(previous_path)
            await self._load(http, previous_path, version)
            await self._prove(http, version, None)
        except (_Failed, PublishFailed) as failed:
            return f"Going back to {previous_path} failed too ({failed}): restart the engine with those weights"
        return f"The weights of {previous_path} serve again: mend what is named here, then publish again"


class _Failed(Exception):
    """One step of a publish went wrong."""


def read_version(weights_path: str) -> str:
    """The version that a weights folder names in its prover.json. Raises PublishFailed."""
    manifest = Path(weights_path) / "prover.json"
    try:
        version = json.loads(manifest.read_text())["version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PublishFailed(
            f'weights_path: {manifest}: {type(error).__name__}: {error}; expected {{"version": "v1", ...}}. '
            "Nothing was changed"
        ) from error
    return str(version)


async def _compare(choice: _Choice, probe: Probe) -> float:
    engine = choice.logprobs.token_logprobs
    trainer = await probe.score(probe.context_token_ids, choice.token_ids)
    if not len(engine) == len(trainer) == len(choice.token_ids) > 0:
        raise _Failed(
            f"probe: {len(choice.token_ids)} tokens, {len(engine)} log-probabilities of the engine, {len(trainer)} of "
            "the trainer; expected as many of each, and one at least"
        )
    difference = max(abs(mine - theirs) for mine, theirs in zip(trainer, engine, strict=True))
    if not difference <= probe.tolerance:
        raise _Failed(
            f"probe: log-probabilities of trainer and engine differ by {difference:.4g} nats; "
            f"expected at most {probe.tolerance:g}"
        )
    return difference


async def _post(http: httpx.AsyncClient, path: str, body: object = None, *, optional: bool = False) -> httpx.Response:
    return await _ask(http, "POST", path, body, optional=optional)


async def _ask(
    http: httpx.AsyncClient, method: str, path: str, body: object = None, *, optional: bool = False
) -> httpx.Response:
    """Every one of these calls may be made twice, so lost connections and 5xx are tried again."""
    failure = ""
    for attempt in range(_TRIES):
        if attempt:
            await asyncio.sleep(_PAUSE_S * attempt)
        try:
            answer = await http.request(method, path, json=body)
        except httpx.TransportError as error:
            failure = f"{type(error).__name__}: {error}"
            continue
        if answer.is_success or (optional and answer.status_code in (404, 405)):
            return answer
        failure = f"{answer.status_code}: {answer.text[:1000]}"
        if answer.status_code < 500:
            break
    raise _Failed(f"{http.base_url}{path.lstrip('/')}: {failure}")


def _read(model: type[_M], answer: httpx.Response) -> _M:
    try:
        return model.model_validate_json(answer.content)
    except ValidationError as error:
        raise _Failed(f"{answer.request.url}: answered what was not expected: {error}") from error
