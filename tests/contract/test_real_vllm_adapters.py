"""Adapters under their versions' names in a real vLLM: docs/vllm.md says how to serve one that takes them."""

import copy
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from transformers import AutoModelForCausalLM

from prover.policies import PolicyClient
from prover.policies.adapters import Adapters
from prover.policies.publish import Probe, PublishFailed
from services.learner.adapters import add_adapters, write_adapter
from tests.real_vllm import ADDRESS, BF16_NATS, PROMPT, WEIGHTS, asking, greedy, needs_server, needs_weights

pytestmark = [*needs_server, needs_weights]

Writer = Callable[[str, int], tuple[str, Probe]]
RANK = 8
NOISE = 0.15
"""Standard deviation of the second factor: some nats of change, where bfloat16 explains half a nat."""


@pytest.fixture(autouse=True)
def _takes_adapters() -> None:
    if httpx.get(f"{ADDRESS}/v1/load_lora_adapter").status_code != 405:
        pytest.skip("the server takes no adapters; start it with --enable-lora (docs/vllm.md)")


@pytest.fixture
async def base() -> AsyncIterator[PolicyClient]:
    """Asks for the model itself, whatever is loaded. Adapters of a test are unloaded after it."""
    async with httpx.AsyncClient(base_url=ADDRESS) as http:
        cards = (await http.get("/v1/models")).json()["data"]
        async with asking(model=cards[0]["id"]) as client:
            yield client
        loaded = {card["id"] for card in (await http.get("/v1/models")).json()["data"]}
        for name in loaded - {card["id"] for card in cards}:
            await http.post("/v1/unload_lora_adapter", json={"lora_name": name})


@pytest.fixture
async def prompt(base: PolicyClient) -> tuple[int, ...]:
    return await base.tokenize(PROMPT)


@pytest.fixture(scope="module")
def adapted() -> Any:
    """The served weights with an adapter that does nothing yet."""
    return add_adapters(AutoModelForCausalLM.from_pretrained(WEIGHTS, dtype=torch.float32), rank=RANK)


@pytest.fixture
def write(adapted: Any, prompt: tuple[int, ...], tmp_path: Path) -> Writer:
    """Writes an adapter of noise as the learner does: its folder, and a probe of the weights that it makes."""

    def write(version: str, seed: int) -> tuple[str, Probe]:
        torch.manual_seed(seed)
        model = copy.deepcopy(adapted).eval()
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.data.normal_(std=NOISE)
        write_adapter(tmp_path / version, model, model.state_dict(), version=version, dtype=torch.bfloat16)

        async def score(context: Sequence[int], sampled: Sequence[int]) -> list[float]:
            with torch.no_grad():
                distribution = model(torch.tensor([[*context, *sampled]])).logits[0].log_softmax(-1)
            return [distribution[len(context) + place - 1, token].item() for place, token in enumerate(sampled)]

        return str(tmp_path / version), Probe(context_token_ids=prompt, score=score, tolerance=BF16_NATS)

    return write


async def ask(name: str, prompt: tuple[int, ...]) -> tuple[int, ...]:
    """What the policy of that name writes; it has to answer in that name."""
    async with asking(model=name) as client:
        assert (await client.info()).version == name
        return await greedy(client, prompt)


async def test_each_version_answers_under_its_name_and_the_model_goes_on_as_it_was(
    base: PolicyClient, prompt: tuple[int, ...], write: Writer
) -> None:
    before = await greedy(base, prompt)
    written = {}
    for version, seed in (("adapter-v1", 1), ("adapter-v2", 2)):
        path, probe = write(version, seed)
        published = await Adapters(ADDRESS).publish(path, probe=probe)
        assert published.version == version and 0 < published.probe_difference <= BF16_NATS
        written[version] = await ask(version, prompt)
    assert len({before, *written.values()}) == 3
    async with asking() as newest:
        assert (await newest.info()).version == "adapter-v2", "who names no version is given the newest"
    assert await ask("adapter-v1", prompt) == written["adapter-v1"], "the older version stays verifiable"
    assert await greedy(base, prompt) == before


async def test_an_adapter_that_is_not_the_trainers_is_unloaded(
    base: PolicyClient, prompt: tuple[int, ...], write: Writer
) -> None:
    first, probe = write("adapter-v1", 1)
    await Adapters(ADDRESS).publish(first, probe=probe)
    second, _ = write("adapter-v2", 2)
    with pytest.raises(PublishFailed, match=r"'adapter-v2'.*differ by .* nats.*The adapter 'adapter-v1' serves on"):
        await Adapters(ADDRESS).publish(second, probe=probe)
    async with asking() as newest:
        assert (await newest.info()).version == "adapter-v1"


async def test_no_state_of_an_older_adapter_of_the_same_name_is_left(
    base: PolicyClient, prompt: tuple[int, ...], write: Writer, tmp_path: Path
) -> None:
    first, probe = write("adapter-v1", 1)
    await Adapters(ADDRESS).publish(first, probe=probe)
    (tmp_path / "adapter-v1").rename(tmp_path / "gone")
    other, probe = write("adapter-v1", 2)
    assert other == first
    assert (await Adapters(ADDRESS).publish(other, probe=probe)).probe_difference <= BF16_NATS
