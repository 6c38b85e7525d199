"""The policy client against the embedded engine over real HTTP."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch

from prover.policies import ContextTooLong, PolicyClient, PolicyError, Sampling
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
    client = PolicyClient(embedded, timeout_s=60.0)
    yield client
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
    client = PolicyClient(embedded, model="gpt", timeout_s=20.0)
    with pytest.raises(PolicyError, match=r"model: was 'gpt'; .* serves tiny"):
        await client.complete(CONTEXT, Sampling(seed=1, max_tokens=8))
    await client.aclose()


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
