"""The policy client against the embedded engine over real HTTP, and against a server that answers as vLLM does."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from prover.local.stack import free_port
from prover.policies import Completion, ContextTooLong, PolicyClient, PolicyError, Sampling
from services.engine.http_server import make_app
from tests.unit.engine.builders import MAX_CONTEXT, STOP, WORDS, engine, weights, write_weights
from tests.unit.engine.serving import serving

CONTEXT = (8, 9, 10, 4, 6, 0, 1)


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an embedded engine with random weights, version v0."""
    of = weights(tmp_path_factory.mktemp("weights"))
    with serving(make_app(engine(of), dtype=torch.float32)) as url:
        yield url


@pytest.fixture
async def client(embedded: str) -> AsyncIterator[PolicyClient]:
    """A client of it."""
    client = PolicyClient(embedded, timeout_s=20.0)
    yield client
    await client.aclose()


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


async def test_info_names_model_version_and_context(client: PolicyClient) -> None:
    info = await client.info()
    assert (info.model, info.version, info.max_context) == ("tiny", "v0", MAX_CONTEXT)


async def test_a_completion_has_a_logprob_for_each_token_and_the_version(client: PolicyClient) -> None:
    completion = await client.complete(CONTEXT, Sampling(max_tokens=12, seed=4))
    assert len(completion.token_ids) == len(completion.logprobs) == 12
    assert all(logprob < 0 for logprob in completion.logprobs)
    assert completion.text == "".join(WORDS[token] for token in completion.token_ids)
    assert (completion.finish_reason, completion.policy_version) == ("length", "v0")


async def test_a_stop_token_is_in_the_tokens_and_not_in_the_text(client: PolicyClient) -> None:
    samplings = [Sampling(max_tokens=60, seed=seed, stop_token_ids=(STOP,)) for seed in range(20)]
    completions = await asyncio.gather(*(client.complete(CONTEXT, sampling) for sampling in samplings))
    stopped = [completion for completion in completions if completion.finish_reason == "stop"]
    assert stopped
    for completion in stopped:
        assert completion.token_ids.index(STOP) == len(completion.token_ids) - 1
        assert "\n" not in completion.text


async def test_one_seed_gives_one_answer_also_in_company(client: PolicyClient) -> None:
    alone = await client.complete(CONTEXT, Sampling(seed=7))
    crowd = await asyncio.gather(*(client.complete(CONTEXT, Sampling(seed=seed)) for seed in range(5, 10)))
    assert crowd[2].token_ids == alone.token_ids
    assert len({completion.token_ids for completion in crowd}) > 1


async def test_texts_are_tokenised_by_the_engine(client: PolicyClient) -> None:
    tokens = await client.tokenize("You see a desk 1\n>")
    assert [WORDS[token] for token in tokens] == ["You", " see", " a", " desk", " 1", "\n", ">"]


async def test_a_context_that_has_outgrown_the_engine_is_told_apart(client: PolicyClient) -> None:
    with pytest.raises(ContextTooLong, match=f"250 tokens and 7 to sample; expected at most {MAX_CONTEXT}"):
        await client.complete((1,) * 250, Sampling(max_tokens=7))


async def test_the_engine_itself_refuses_a_context_that_is_too_long(embedded: str) -> None:
    async with httpx.AsyncClient() as http:
        body = {"prompt": [1] * 250, "max_tokens": 7}
        answer = await http.post(f"{embedded}/v1/completions", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "context_length_exceeded"
    assert "250 in the prompt and asks for 7 more" in answer.json()["error"]["message"]


async def test_a_token_that_the_engine_does_not_know_is_an_error_with_the_reason(client: PolicyClient) -> None:
    with pytest.raises(PolicyError, match="token id was 999; expected 0 to 12"):
        await client.complete((1, 999), Sampling())


async def test_a_model_that_is_not_served_is_an_error_that_says_what_is(embedded: str) -> None:
    with pytest.raises(PolicyError, match=r"model: was 'gpt'; .* serves tiny"):
        await ask(embedded, model="gpt")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"top_k": 5}, "top_k"),
        ({"min_p": 0.1}, "min_p"),
        ({"repetition_penalty": 1.1}, "repetition_penalty"),
        ({"presence_penalty": 0.1}, "presence_penalty"),
        ({"frequency_penalty": -0.1}, "frequency_penalty"),
        ({"best_of": 2}, "best_of"),
        ({"temperature": -1}, "temperature"),
        ({"prompt": []}, "prompt"),
        ({"prompt": "text"}, "prompt"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"stream": True}, "stream"),
        ({"model": "other"}, "model: was 'other'; expected 'tiny'"),
    ],
)
async def test_what_the_engine_cannot_do_is_refused_by_name(embedded: str, change: dict[str, Any], said: str) -> None:
    async with httpx.AsyncClient() as http:
        answer = await http.post(f"{embedded}/v1/completions", json={"prompt": [1, 2], **change})
    assert answer.status_code == 400
    assert said in answer.json()["error"]["message"]


async def test_several_prompts_and_samples_come_back_in_order(embedded: str) -> None:
    async with httpx.AsyncClient() as http:
        body = {"prompt": [[1, 2], [3]], "n": 2, "max_tokens": 2, "seed": 1, "return_token_ids": True}
        answer = (await http.post(f"{embedded}/v1/completions", json=body)).json()
    assert [choice["prompt_token_ids"] for choice in answer["choices"]] == [[1, 2], [1, 2], [3], [3]]
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    assert answer["usage"]["completion_tokens"] == 8


async def test_new_weights_change_the_version_and_the_answers(tmp_path: Path) -> None:
    folder = write_weights(tmp_path / "new", seed=9, version="v1")
    old = weights(tmp_path / "old", seed=1)
    with serving(make_app(engine(old), dtype=torch.float32)) as url:
        client = PolicyClient(url, timeout_s=20.0)
        before = await client.complete(CONTEXT, Sampling(seed=1))
        async with httpx.AsyncClient(base_url=url) as http:
            paused = await http.post("/pause", params={"mode": "keep"})
            held = asyncio.create_task(client.complete(CONTEXT, Sampling(seed=1)))
            rpc = {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}}
            loaded = await http.post("/collective_rpc", json=rpc)
            await http.post("/reset_prefix_cache")
            await http.post("/resume")
        assert (paused.status_code, loaded.json()) == (200, {"results": [None], "weights_version": "v1"})
        after = await held
        assert (before.policy_version, after.policy_version) == ("v0", "v1")
        assert (await client.info()).version == "v1"
        await client.aclose()
    with serving(make_app(engine(weights(tmp_path / "fresh", seed=9, version="v1")), dtype=torch.float32)) as url:
        fresh = PolicyClient(url)
        assert (await fresh.complete(CONTEXT, Sampling(seed=1))).token_ids == after.token_ids
        await fresh.aclose()


async def test_weights_of_another_shape_are_refused_and_the_old_ones_stay(tmp_path: Path) -> None:
    old = weights(tmp_path / "old")
    (tmp_path / "empty").mkdir()
    with serving(make_app(engine(old), dtype=torch.float32)) as url:
        async with httpx.AsyncClient(base_url=url) as http:
            rpc = {"method": "reload_weights", "kwargs": {"weights_path": str(tmp_path / "empty")}}
            answer = await http.post("/collective_rpc", json=rpc)
            assert answer.status_code == 400
            assert "prover.json" in answer.json()["error"]["message"]
            assert (await http.get("/v1/models")).json()["data"][0]["weights_version"] == "v0"


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
