"""What a real vLLM remembers of weights that it no longer serves: nothing. docs/vllm.md says how to serve one.

The yardstick is a second vLLM, served as the first one and started on the new weights: it never had others. The control
is the same prompt after a reload that leaves the cache as it is: a leak changes what is written, so it would be seen.
"""

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from bench.figures import samples_of
from prover.policies import Completion, PolicyClient, Sampling
from prover.policies.publish import SharedStorage
from tests.real_vllm import (
    BF16_NATS,
    PROMPT,
    WEIGHTS,
    asking,
    named,
    needs_command,
    perturbed,
    probe_of,
    vllm_serving,
)

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1200), needs_command]

GREEDY = Sampling(temperature=0.0, max_tokens=32)
SAME_NATS = 0.05
"""How far two vLLMs on the same weights may be apart. It was 0 with neither having the prompt in its cache; in bfloat16
one engine is 0.21 nats from itself with and without it, and a cache of older weights was 1.9 nats away."""
UNCACHED = 64
"""Tokens of a prompt that are too few for a cache block: probing with them leaves the whole prompt to be computed."""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return named(Path(shutil.copytree(WEIGHTS, tmp_path / "old")), "v0")


@pytest.fixture
def url(old: Path, tmp_path: Path) -> Iterator[str]:
    with vllm_serving(old, tmp_path / "old_log") as url:
        yield url


@pytest.fixture
async def client(url: str) -> AsyncIterator[PolicyClient]:
    async with asking(url) as client:
        yield client


@pytest.fixture
async def prompt(client: PolicyClient) -> tuple[int, ...]:
    """Some hundred tokens: vLLM on the CPU caches blocks of 128."""
    told = " ".join(f"The number after {number} is {number + 1}." for number in range(60))
    return await client.tokenize(PROMPT.replace("Name", f"{told} Name"))


async def cached_tokens(url: str) -> float:
    """Prompt tokens that the engine has taken from its prefix cache so far."""
    async with httpx.AsyncClient(trust_env=False) as http:
        metrics = (await http.get(f"{url}/metrics")).text
    return sum(sample.value for sample in samples_of(metrics) if sample.name == "vllm:prefix_cache_hits_total")


async def reload_and_keep_the_cache(url: str, weights: Path) -> None:
    """What publishing must not do."""
    call = {"method": "reload_weights", "kwargs": {"weights_path": str(weights)}}
    async with httpx.AsyncClient(trust_env=False, timeout=300.0) as http:
        (await http.post(f"{url}/collective_rpc", json=call)).raise_for_status()


async def of_a_fresh_engine(weights: Path, prompt: tuple[int, ...], log: Path) -> Completion:
    with vllm_serving(weights, log) as url:
        async with asking(url) as client:
            return await client.complete(prompt, GREEDY)


def furthest(one: Completion, other: Completion) -> float:
    """Greatest difference of log-probabilities over the tokens that both begin with, in nats."""
    pairs = zip(one.token_ids, other.token_ids, one.logprobs, other.logprobs, strict=True)
    same = [abs(here - there) for mine, theirs, here, there in pairs if mine == theirs]
    return max(same, default=0.0)


async def test_no_state_of_older_weights_is_left_in_the_prefix_cache(
    url: str, client: PolicyClient, prompt: tuple[int, ...], old: Path, tmp_path: Path
) -> None:
    storage = SharedStorage(url)
    await storage.publish(str(old))
    before = await client.complete(prompt, GREEDY)
    counted = await cached_tokens(url)
    again = await client.complete(prompt, GREEDY)
    assert await cached_tokens(url) - counted >= 128
    assert again.token_ids == before.token_ids

    new = perturbed(tmp_path / "new", version="v1")
    await reload_and_keep_the_cache(url, new)
    stale = await client.complete(prompt, GREEDY)

    probe = probe_of(new, prompt[:UNCACHED], tolerance=BF16_NATS)
    await storage.publish(str(new), probe=probe, previous_path=str(old))
    after = await client.complete(prompt, GREEDY)
    fresh = await of_a_fresh_engine(new, prompt, tmp_path / "log")
    assert after.token_ids == fresh.token_ids != before.token_ids
    assert furthest(after, fresh) <= SAME_NATS
    assert stale.token_ids != fresh.token_ids
