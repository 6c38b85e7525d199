"""The engine's HTTP face: decode, call, encode."""

import asyncio
import itertools
import time
import uuid
from collections.abc import AsyncGenerator, Coroutine
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import torch
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.types import Receive
from tokenizers import Tokenizer

from services.engine import protocol
from services.engine.batch import Sample, SampleRequest
from services.engine.engine import Engine, EngineFull, PauseMode, PromptTooLong
from services.engine.metrics import EngineCollector
from services.engine.weights import Weights, WeightsError, load_weights

_CLOSED_BY_CLIENT = 499
"""nginx's code for a caller that went away; nobody reads it."""


def make_app(engine: Engine, *, dtype: torch.dtype) -> FastAPI:
    """The application; starts and stops the engine with itself."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        engine.start()
        yield
        await asyncio.to_thread(engine.stop)

    app = FastAPI(title="ProVer policy engine", lifespan=lifespan)
    _add_errors(app)
    _add_sampling(app, engine)
    _add_control(app, engine, dtype=dtype)
    _add_observation(app, engine)
    return app


def _add_sampling(app: FastAPI, engine: Engine) -> None:
    @app.post("/v1/completions")
    async def complete(body: protocol.CompletionRequest, http: Request) -> Response:
        weights = engine.weights
        _check_model(body.model, weights)
        requests = _sample_requests(body)
        samples = await _unless_gone(http, _sample_all(engine, requests))
        if samples is None:
            return Response(status_code=_CLOSED_BY_CLIENT)
        answer = _completion(body, requests, samples, weights=weights)
        return Response(answer.model_dump_json(), media_type="application/json")

    @app.post("/tokenize")
    async def tokenize(body: protocol.TokenizeRequest) -> protocol.TokenizeAnswer:
        weights = engine.weights
        _check_model(body.model, weights)
        ids = weights.tokenizer.encode(body.prompt, add_special_tokens=False).ids
        return protocol.TokenizeAnswer(
            count=len(ids), max_model_len=weights.max_context, tokens=ids, weights_version=weights.version
        )

    @app.post("/detokenize")
    async def detokenize(body: protocol.DetokenizeRequest) -> protocol.DetokenizeAnswer:
        weights = engine.weights
        _check_model(body.model, weights)
        text = weights.tokenizer.decode(body.tokens, skip_special_tokens=False)
        return protocol.DetokenizeAnswer(prompt=text, weights_version=weights.version)


def _add_control(app: FastAPI, engine: Engine, *, dtype: torch.dtype) -> None:
    @app.post("/pause")
    async def pause(mode: PauseMode = PauseMode.ABORT) -> protocol.StateAnswer:
        await asyncio.wrap_future(engine.pause(mode))
        return protocol.StateAnswer(status="paused", weights_version=engine.weights.version)

    @app.post("/resume")
    async def resume() -> protocol.StateAnswer:
        await asyncio.wrap_future(engine.resume())
        return protocol.StateAnswer(status="resumed", weights_version=engine.weights.version)

    @app.get("/is_paused")
    async def is_paused() -> dict[str, bool]:
        return {"is_paused": engine.paused}

    @app.post("/reset_prefix_cache")
    async def reset_prefix_cache() -> protocol.StateAnswer:
        await asyncio.wrap_future(engine.clear_prefixes())
        return protocol.StateAnswer(status="reset", weights_version=engine.weights.version)

    @app.post("/collective_rpc")
    async def collective_rpc(body: protocol.RpcRequest) -> protocol.RpcAnswer:
        if body.method != "reload_weights":
            raise ValueError(f"method: was {body.method!r}; expected 'reload_weights'")
        folder = body.kwargs.get("weights_path")
        if set(body.kwargs) != {"weights_path"} or body.args or not isinstance(folder, str):
            raise ValueError(f'kwargs: was {body.kwargs}; expected {{"weights_path": "FOLDER"}} and no args')
        old = engine.weights
        new = await asyncio.to_thread(load_weights, Path(folder), dtype=dtype, tokenizer=old.tokenizer)
        _check_same_policy(old, new)
        await asyncio.wrap_future(engine.replace_weights(new))
        return protocol.RpcAnswer(results=[None], weights_version=new.version)


def _add_observation(app: FastAPI, engine: Engine) -> None:
    registry = CollectorRegistry()
    registry.register(EngineCollector(engine))

    @app.get("/health")
    async def health() -> Response:
        return Response(status_code=200 if engine.healthy else 503)

    @app.get("/v1/models")
    async def models() -> protocol.ModelList:
        weights = engine.weights
        card = protocol.ModelCard(
            id=weights.name,
            root=weights.name,
            max_model_len=weights.max_context,
            weights_version=weights.version,
        )
        return protocol.ModelList(data=[card])

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


def _add_errors(app: FastAPI) -> None:
    """vLLM's form of an error: {"error": {"message", "type", "param", "code"}}."""

    async def bad_request(_: Request, error: Exception) -> Response:
        kind = "context_length_exceeded" if isinstance(error, PromptTooLong) else "BadRequestError"
        return _error(400, kind, str(error))

    async def invalid(_: Request, error: Exception) -> Response:
        problems = error.errors() if isinstance(error, RequestValidationError) else []
        lines = [
            f"{'.'.join(str(part) for part in problem['loc'][1:])}: {problem['msg']}"
            + ("" if problem["type"] == "missing" else f" (was {str(problem['input'])[:80]})")
            for problem in problems
        ]
        return _error(400, "BadRequestError", "; ".join(lines))

    async def full(_: Request, error: Exception) -> Response:
        return _error(503, "ServiceUnavailableError", str(error), headers={"Retry-After": "1"})

    async def stopped(_: Request, error: Exception) -> Response:
        return _error(503, "ServiceUnavailableError", f"the engine let go of the request: {error}")

    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(PromptTooLong, bad_request)
    app.add_exception_handler(WeightsError, bad_request)
    app.add_exception_handler(ValueError, bad_request)
    app.add_exception_handler(EngineFull, full)
    app.add_exception_handler(CancelledError, stopped)


def _error(code: int, kind: str, message: str, *, headers: dict[str, str] | None = None) -> Response:
    body = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    return JSONResponse(body, status_code=code, headers=headers)


def _check_model(asked: str | None, weights: Weights) -> None:
    if asked is not None and asked != weights.name:
        raise ValueError(f"model: was {asked!r}; expected {weights.name!r} or none")


def _check_same_policy(old: Weights, new: Weights) -> None:
    """A new version may differ in its numbers only: contexts and clients outlive it."""
    for name in ("name", "max_context", "end_ids"):
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            raise WeightsError(f"weights_path: {name} was {after!r}; expected {before!r}, as in the weights in use")
    sizes = [int(weights.model.config.vocab_size or 0) for weights in (old, new)]
    if sizes[0] != sizes[1]:
        raise WeightsError(f"weights_path: vocab_size was {sizes[1]}; expected {sizes[0]}, as in the weights in use")


def _sample_requests(body: protocol.CompletionRequest) -> list[SampleRequest]:
    """Each answer draws from a generator of its own: `seed`, `seed + 1` and so on."""
    asked = [tuple(prompt) for prompt in body.prompt for _ in range(body.n)]
    return [
        SampleRequest(
            prompt_ids=prompt_ids,
            max_tokens=body.max_tokens,
            temperature=body.temperature,
            top_p=body.top_p,
            stop_ids=frozenset(body.stop_token_ids),
            ignore_end=body.ignore_eos,
            seed=None if body.seed is None else body.seed + index,
        )
        for index, prompt_ids in enumerate(asked)
    ]


async def _sample_all(engine: Engine, requests: list[SampleRequest]) -> list[Sample]:
    """Samples them all from one version: those that ended before a change of weights are drawn once more after it."""
    samples = await _gather(engine, requests)
    while len({sample.version for sample in samples}) > 1:
        newest = engine.weights.version
        old = [index for index, sample in enumerate(samples) if sample.version != newest]
        for index, sample in zip(old, await _gather(engine, [requests[index] for index in old]), strict=True):
            samples[index] = sample
    return samples


async def _gather(engine: Engine, requests: list[SampleRequest]) -> list[Sample]:
    return list(await asyncio.gather(*(asyncio.wrap_future(future) for future in engine.submit(requests))))


async def _unless_gone(http: Request, sampling: Coroutine[Any, Any, list[Sample]]) -> list[Sample] | None:
    """The answers, or None where the caller hung up first: then its requests are dropped."""
    answered = asyncio.ensure_future(sampling)
    gone = asyncio.ensure_future(_hang_up(http.receive))
    try:
        await asyncio.wait({gone, answered}, return_when=asyncio.FIRST_COMPLETED)
        return answered.result() if answered.done() else None
    finally:
        gone.cancel()
        answered.cancel()


async def _hang_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _completion(
    body: protocol.CompletionRequest, requests: list[SampleRequest], samples: list[Sample], *, weights: Weights
) -> protocol.CompletionAnswer:
    read = sum(len(request.prompt_ids) for request in requests)
    written = sum(len(sample.token_ids) for sample in samples)
    return protocol.CompletionAnswer(
        id=f"cmpl-{uuid.uuid4().hex}",
        created=int(time.time()),
        model=weights.name,
        weights_version=samples[0].version,
        choices=[
            _choice(index, body, request, sample, tokenizer=weights.tokenizer)
            for index, (request, sample) in enumerate(zip(requests, samples, strict=True))
        ],
        usage=protocol.Usage(
            prompt_tokens=read,
            completion_tokens=written,
            total_tokens=read + written,
            prompt_tokens_details=protocol.PromptDetails(cached_tokens=sum(sample.reused for sample in samples)),
        ),
    )


def _choice(
    index: int,
    body: protocol.CompletionRequest,
    request: SampleRequest,
    sample: Sample,
    *,
    tokenizer: Tokenizer,
) -> protocol.Choice:
    stopped = sample.finish_reason == "stop"
    pieces = [tokenizer.decode([token], skip_special_tokens=False) for token in sample.token_ids]
    logprobs = None
    if body.logprobs is not None:
        offsets = [0, *itertools.accumulate(len(piece) for piece in pieces)][: len(pieces)]
        logprobs = protocol.Logprobs(tokens=pieces, token_logprobs=list(sample.logprobs), text_offset=offsets)
    return protocol.Choice(
        index=index,
        text=tokenizer.decode(sample.token_ids[: -1 if stopped else None], skip_special_tokens=False),
        logprobs=logprobs,
        finish_reason=sample.finish_reason,
        stop_reason=sample.token_ids[-1] if stopped else None,
        token_ids=list(sample.token_ids) if body.return_token_ids else None,
        prompt_token_ids=list(request.prompt_ids) if body.return_token_ids else None,
    )
