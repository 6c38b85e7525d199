"""The policy client against a server that answers as vLLM does, over real HTTP."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from prover.local.stack import free_port
from prover.policies import Completion, ContextTooLong, PolicyClient, PolicyError, Sampling
from tests.unit.engine.serving import serving

CONTEXT = (8, 9, 10, 4, 6, 0, 1)


class FakeVllm:
    """Answers completions as vLLM does: no version of its own. Fails first, as often as it is told."""

    def __init__(self) -> None:
        self.failures: list[Response] = []
        self.asked: list[dict[str, Any]] = []
        self.in_flight = self.most_in_flight = 0
        self.finish_reasons = ["stop"]
        self.versions: list[str] = []
        self.keys: set[str | None] = set()

    def app(self) -> FastAPI:
        app = FastAPI()

        @app.middleware("http")
        async def note_key(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
            self.keys.add(request.headers.get("authorization"))
            return await answer(request)

        @app.get("/v1/models")
        async def models() -> dict[str, Any]:
            return {"data": [{"id": name, "max_model_len": 512, "root": "/models/base"} for name in ("base", "v7")]}

        @app.get("/weight_info", response_model=None)
        async def weight_info() -> Response | dict[str, Any]:
            if not self.versions:
                return Response(status_code=404)
            return {"weight_version": self.versions.pop(0) if len(self.versions) > 1 else self.versions[0]}

        @app.post("/tokenize")
        async def tokenize(request: Request) -> dict[str, Any]:
            body = await request.json()
            self.asked.append(body)
            return {"count": 1, "max_model_len": 512, "tokens": [len(body["prompt"])], "token_strs": None}

        @app.post("/v1/completions", response_model=None)
        async def complete(request: Request) -> Response | dict[str, Any]:
            body = await request.json()
            self.asked.append(body)
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            await asyncio.sleep(0.02)
            self.in_flight -= 1
            if self.failures:
                return self.failures.pop(0)
            reason = self.finish_reasons.pop(0) if len(self.finish_reasons) > 1 else self.finish_reasons[0]
            logprobs = {"text_offset": [0], "token_logprobs": [-0.5], "tokens": ["a"], "top_logprobs": [{"a": -0.5}]}
            choice = {"index": 0, "text": "a", "finish_reason": reason, "stop_reason": 3, "logprobs": logprobs}
            choice |= {"token_ids": [3], "prompt_token_ids": body["prompt"]}
            return {"id": "cmpl-1", "object": "text_completion", "model": body["model"], "choices": [choice]}

        return app


@pytest.fixture
def vllm() -> Iterator[tuple[FakeVllm, str]]:
    """Such a server and its address."""
    fake = FakeVllm()
    with serving(fake.app()) as url:
        yield fake, url


async def ask(url: str, *, model: str | None = None, context: tuple[int, ...] = CONTEXT) -> Completion:
    """One completion by a client that is made for it."""
    client = PolicyClient(url, model=model, timeout_s=5.0)
    try:
        return await client.complete(context, Sampling(max_tokens=4))
    finally:
        await client.aclose()


async def test_where_an_engine_has_no_version_its_model_name_is_the_version(vllm: tuple[FakeVllm, str]) -> None:
    _, url = vllm
    assert (await ask(url)).policy_version == "base"
    assert (await ask(url, model="v7")).policy_version == "v7"


async def test_the_version_that_was_published_into_vllm_is_the_turns(vllm: tuple[FakeVllm, str]) -> None:
    fake, url = vllm
    fake.versions = ["v3"]
    assert (await ask(url)).policy_version == "v3"
    fake.versions = ["default"]
    assert (await ask(url)).policy_version == "base"


async def test_a_turn_during_which_vllms_version_changed_is_sampled_again(vllm: tuple[FakeVllm, str]) -> None:
    fake, url = vllm
    # Asked when a client is new, and before and after each turn.
    fake.versions = ["v3", "v3", "v4"]
    assert (await ask(url)).policy_version == "v4"
    assert len(fake.asked) == 2


@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_engine_is_asked_again(vllm: tuple[FakeVllm, str], status: int) -> None:
    fake, url = vllm
    fake.failures = [Response(status_code=status)] * 2
    assert (await ask(url)).token_ids == (3,)
    assert len(fake.asked) == 3


async def test_an_engine_that_stays_busy_is_given_up(vllm: tuple[FakeVllm, str]) -> None:
    fake, url = vllm
    fake.failures = [Response(status_code=503, content="no room")] * 9
    with pytest.raises(PolicyError, match="no answer in 5 attempts; the last one: 503: no room"):
        await ask(url)
    assert len(fake.asked) == 5


async def test_a_patient_client_outlasts_an_engine_that_is_away_for_longer(vllm: tuple[FakeVllm, str]) -> None:
    fake, url = vllm
    fake.failures = [Response(status_code=503, content="starting")] * 6
    client = PolicyClient(url, patience_s=60.0)
    answer = await client.complete(CONTEXT, Sampling(max_tokens=4))
    await client.aclose()
    assert answer.token_ids == (3,)
    assert len(fake.asked) == 7


async def test_an_engines_own_error_is_not_asked_for_again(vllm: tuple[FakeVllm, str]) -> None:
    fake, url = vllm
    fake.failures = [JSONResponse({"error": {"message": "boom"}}, status_code=500)]
    with pytest.raises(PolicyError, match=r"500: .*boom"):
        await ask(url)
    assert len(fake.asked) == 1


async def test_a_turn_that_the_engine_aborted_is_sampled_again(vllm: tuple[FakeVllm, str]) -> None:
    fake, url = vllm
    fake.finish_reasons = ["abort", "stop"]
    assert (await ask(url)).finish_reason == "stop"
    assert len(fake.asked) == 2


async def test_vllms_words_for_a_context_that_is_too_long_are_understood(vllm: tuple[FakeVllm, str]) -> None:
    fake, url = vllm
    message = (
        "This model's maximum context length is 512 tokens. However, you requested 4 output tokens and your prompt "
        "contains at least 509 input tokens, for a total of at least 513 tokens."
    )
    fake.failures = [JSONResponse({"error": {"message": message, "code": 400}}, status_code=400)]
    with pytest.raises(ContextTooLong, match="maximum context length"):
        await ask(url)


async def test_an_answer_without_logprobs_is_an_error(vllm: tuple[FakeVllm, str]) -> None:
    fake, url = vllm
    fake.failures = [JSONResponse({"model": "base", "choices": [{"text": "a", "finish_reason": "stop"}]})]
    with pytest.raises(PolicyError, match="answered what was not expected"):
        await ask(url)


async def test_nothing_of_the_sampling_is_left_to_the_models_generation_config(vllm: tuple[FakeVllm, str]) -> None:
    """The names are those that vLLM reads from generation_config.json, where a request leaves them out."""
    fake, url = vllm
    await ask(url)
    (body,) = fake.asked
    neutral = {
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "max_tokens": 4,
    }
    assert {name: body.get(name) for name in neutral} == neutral


async def test_the_api_key_goes_along_with_every_request(vllm: tuple[FakeVllm, str]) -> None:
    fake, url = vllm
    fake.versions = ["v3"]
    client = PolicyClient(url, api_key="s3cret")
    await client.complete(CONTEXT, Sampling(max_tokens=4))
    await client.tokenize("ab")
    await client.info()
    await client.aclose()
    assert fake.keys == {"Bearer s3cret"}


async def test_without_an_api_key_none_is_sent(vllm: tuple[FakeVllm, str]) -> None:
    fake, url = vllm
    await ask(url)
    assert fake.keys == {None}


async def test_no_more_than_max_in_flight_are_under_way(vllm: tuple[FakeVllm, str]) -> None:
    fake, url = vllm
    client = PolicyClient(url, max_in_flight=3)
    await asyncio.gather(*(client.complete(CONTEXT, Sampling(max_tokens=4)) for _ in range(12)))
    await client.aclose()
    assert fake.most_in_flight == 3


async def test_a_text_is_tokenised_once(vllm: tuple[FakeVllm, str]) -> None:
    fake, url = vllm
    client = PolicyClient(url)
    assert [await client.tokenize(text) for text in ("ab", "ab", "abc")] == [(2,), (2,), (3,)]
    await client.aclose()
    assert [body["prompt"] for body in fake.asked] == ["ab", "abc"]


async def test_an_address_where_nobody_listens_is_an_error_that_names_it() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(PolicyError, match=f"{url}/v1/models: no answer in 5 attempts; the last one: ConnectError"):
        await ask(url)
