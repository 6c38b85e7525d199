"""New weights in a real vLLM: docs/vllm.md says how to serve one."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from prover.policies import PolicyClient, Sampling
from prover.policies.publish import PublishFailed, SharedStorage
from tests.real_vllm import (
    ADDRESS,
    BF16_NATS,
    PROMPT,
    WEIGHTS,
    asking,
    greedy,
    named,
    needs_server,
    needs_weights,
    perturbed,
    probe_of,
)

pytestmark = needs_server


@pytest.fixture
async def client() -> AsyncIterator[PolicyClient]:
    async with asking() as client:
        yield client


@pytest.fixture
async def prompt(client: PolicyClient) -> tuple[int, ...]:
    return await client.tokenize(PROMPT)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Path]:
    """The weights that the server was started with; they serve again afterwards."""
    folder = named(Path(shutil.copytree(WEIGHTS, tmp_path / "served")), "v0")
    yield folder
    asyncio.run(SharedStorage(ADDRESS).publish(str(folder)))


@needs_weights
async def test_published_weights_are_those_that_answer(
    client: PolicyClient, prompt: tuple[int, ...], served: Path, tmp_path: Path
) -> None:
    new = perturbed(tmp_path / "new", version="v1")
    storage = SharedStorage(ADDRESS)
    await storage.publish(str(served))
    before = await greedy(client, prompt)
    published = await storage.publish(
        str(new), probe=probe_of(new, prompt, tolerance=BF16_NATS), previous_path=str(served)
    )
    after = await greedy(client, prompt)
    assert published.version == (await client.info()).version == "v1"
    assert (await client.complete(prompt, Sampling(max_tokens=2))).policy_version == "v1"
    assert after != before
    await storage.publish(str(served))
    assert await greedy(client, prompt) == before


@needs_weights
async def test_weights_that_are_not_the_trainers_are_put_back(
    client: PolicyClient, prompt: tuple[int, ...], served: Path, tmp_path: Path
) -> None:
    new = perturbed(tmp_path / "new", version="v1")
    storage = SharedStorage(ADDRESS)
    await storage.publish(str(served))
    before = await greedy(client, prompt)
    with pytest.raises(PublishFailed, match="probe: log-probabilities of trainer and engine differ"):
        wrong = probe_of(served, prompt, tolerance=BF16_NATS)
        await storage.publish(str(new), probe=wrong, previous_path=str(served))
    assert await greedy(client, prompt) == before


@needs_weights
async def test_a_folder_without_weights_leaves_the_engine_serving(
    client: PolicyClient, prompt: tuple[int, ...], served: Path, tmp_path: Path
) -> None:
    storage = SharedStorage(ADDRESS)
    await storage.publish(str(served))
    before = await greedy(client, prompt)
    (tmp_path / "empty").mkdir()
    with pytest.raises(PublishFailed):
        await storage.publish(str(named(tmp_path / "empty", "v1")), previous_path=str(served))
    assert await greedy(client, prompt) == before
