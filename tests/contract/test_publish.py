"""Publishing into the real embedded engine, and into engines that lie as real ones have."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from fastapi import Request, Response
from served_engine import serve, tiny_engine_app
from tiny_policy import write_tiny_weights
from transformers import AutoModelForCausalLM

from prover.policies.client import PolicyClient
from prover.policies.policy import Sampling
from prover.policies.publish import Probe, PublishFailed, SharedStorage

PROMPT = (10, 12, 11)
Middleware = Callable[[Request, Callable[[Request], Awaitable[Response]]], Awaitable[Response]]


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return write_tiny_weights(tmp_path / "v0", seed=0, version="v0")


@pytest.fixture
def new(tmp_path: Path) -> Path:
    return write_tiny_weights(tmp_path / "v1", seed=1, version="v1")


@pytest.fixture
def address(old: Path) -> Iterator[str]:
    with serve(tiny_engine_app(old)) as url:
        yield url


@pytest.fixture
async def policy(address: str) -> AsyncIterator[PolicyClient]:
    client = PolicyClient(address)
    yield client
    await client.aclose()


def probe_of(folder: Path, *, tolerance: float = 1e-3) -> Probe:
    """The log-probabilities that the weights of a folder really give."""
    model = AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32)

    async def score(context: Sequence[int], sampled: Sequence[int]) -> list[float]:
        with torch.no_grad():
            distribution = model(torch.tensor([[*context, *sampled]])).logits[0].log_softmax(-1)
        return [distribution[len(context) + place - 1, token].item() for place, token in enumerate(sampled)]

    return Probe(context_token_ids=PROMPT, score=score, tolerance=tolerance)


async def test_new_weights_serve_and_are_proven(address: str, policy: PolicyClient, new: Path) -> None:
    published = await SharedStorage(address).publish(str(new), probe=probe_of(new))
    assert published.version == "v1"
    assert published.probe_difference < 1e-3
    assert (await policy.info()).version == "v1"
    assert (await policy.complete(PROMPT, Sampling(max_tokens=2))).policy_version == "v1"


async def test_no_turn_is_sampled_from_two_versions(address: str, policy: PolicyClient, new: Path) -> None:
    turns = [
        asyncio.ensure_future(policy.complete((*PROMPT, place), Sampling(max_tokens=60, seed=place)))
        for place in range(8)
    ]
    await asyncio.sleep(0.01)
    await SharedStorage(address).publish(str(new), probe=probe_of(new))
    scores = {folder.name: probe_of(folder).score for folder in (new.parent / "v0", new)}
    for place, turn in enumerate(await asyncio.gather(*turns)):
        expected = await scores[turn.policy_version]((*PROMPT, place), turn.token_ids)
        assert turn.logprobs == pytest.approx(expected, abs=1e-3)


async def test_the_same_weights_may_be_published_again(address: str, new: Path) -> None:
    for _ in range(2):
        assert (await SharedStorage(address).publish(str(new), probe=probe_of(new))).version == "v1"


async def test_weights_that_cannot_be_loaded_leave_the_old_ones_serving(
    address: str, policy: PolicyClient, old: Path, new: Path
) -> None:
    (new / "model.safetensors").write_bytes(b"broken")
    with pytest.raises(PublishFailed, match=r"publish of 'v1' from .*/v1: .*400.*weights of .*/v0 serve again"):
        await SharedStorage(address).publish(str(new), previous_path=str(old))
    completion = await policy.complete(PROMPT, Sampling(max_tokens=2))
    assert completion.policy_version == "v0"


async def test_a_failed_publish_without_a_way_back_still_lets_the_engine_go_on(
    address: str, policy: PolicyClient, new: Path
) -> None:
    (new / "model.safetensors").unlink()
    with pytest.raises(PublishFailed, match="No earlier weights were named"):
        await SharedStorage(address).publish(str(new))
    assert (await policy.complete(PROMPT, Sampling(max_tokens=2))).policy_version == "v0"


async def test_a_probe_that_differs_brings_the_old_weights_back(
    address: str, policy: PolicyClient, old: Path, new: Path
) -> None:
    with pytest.raises(PublishFailed, match=r"differ by .* nats; expected at most 0\.001.*serve again"):
        await SharedStorage(address).publish(str(new), probe=probe_of(old), previous_path=str(old))
    assert (await policy.info()).version == "v0"


async def test_a_folder_without_a_version_is_refused_before_anything_is_touched(
    address: str, policy: PolicyClient, new: Path
) -> None:
    (new / "prover.json").write_text(json.dumps({"model": "tiny"}))
    with pytest.raises(PublishFailed, match="Nothing was changed"):
        await SharedStorage(address).publish(str(new))
    assert (await policy.info()).version == "v0"


async def test_an_engine_that_answers_success_and_keeps_the_old_weights_is_found_out(old: Path, new: Path) -> None:
    with (
        lying_engine(old, pretend_to_load) as address,
        pytest.raises(PublishFailed, match="the engine answered success and still names v0"),
    ):
        await SharedStorage(address).publish(str(new), previous_path=str(old))


async def test_an_engine_without_versions_is_found_out_by_its_log_probabilities(old: Path, new: Path) -> None:
    with (
        lying_engine(old, pretend_to_load, name_no_versions) as address,
        pytest.raises(PublishFailed, match="log-probabilities of trainer and engine differ"),
    ):
        await SharedStorage(address).publish(str(new), probe=probe_of(new), previous_path=str(old))


async def test_an_engine_without_versions_that_really_loads_is_believed(old: Path, new: Path) -> None:
    with lying_engine(old, name_no_versions) as address:
        assert (await SharedStorage(address).publish(str(new), probe=probe_of(new))).version == "v1"


async def test_an_engine_that_is_not_there_is_said_to_be_so(new: Path) -> None:
    with pytest.raises(PublishFailed, match="ConnectError"):
        await SharedStorage("http://127.0.0.1:9").publish(str(new))


async def pretend_to_load(request: Request, go_on: Callable[[Request], Awaitable[Response]]) -> Response:
    """As vLLM did in its issue 32718."""
    if request.url.path == "/collective_rpc":
        return Response('{"results": [null]}', media_type="application/json")
    return await go_on(request)


async def name_no_versions(request: Request, go_on: Callable[[Request], Awaitable[Response]]) -> Response:
    """As vLLM, whose answers do not know of versions."""
    if request.url.path == "/v1/models":
        return Response('{"data": [{"id": "tiny"}]}', media_type="application/json")
    return await go_on(request)


@contextmanager
def lying_engine(weights: Path, *lies: Middleware) -> Iterator[str]:
    """The address of an embedded engine that does not always say what is so."""
    app = tiny_engine_app(weights)
    for lie in lies:
        app.middleware("http")(lie)
    with serve(app) as url:
        yield url
