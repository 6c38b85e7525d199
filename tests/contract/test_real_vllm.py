"""The policy client, the episode loop, publishing and the model judge against a real vLLM: docs/vllm.md says how.

PROVER_TEST_VLLM is the server's address. PROVER_TEST_VLLM_WEIGHTS, for what changes weights, is the folder that it was
started with; the server must be able to read this machine's temporary folder.
"""

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import httpx
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from prover import agents
from prover.credit.segments import segment_fault
from prover.environments import make
from prover.episodes import play, stop_tokens
from prover.policies import ContextTooLong, PolicyClient, PolicyError, Sampling
from prover.policies.publish import Probe, PublishFailed, SharedStorage
from prover.trajectory import Task, Trajectory
from services.judge.llm import Endpoint, Llm
from services.judge.question import ProposeLimits
from services.rollout.rollout import GroupOrder, Rollout
from services.verifier.replay import NotRestorable
from services.verifier.restore import restore
from tests.unit.judge.builders import bell

ADDRESS = os.environ.get("PROVER_TEST_VLLM", "")
WEIGHTS = os.environ.get("PROVER_TEST_VLLM_WEIGHTS", "")

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not ADDRESS, reason="PROVER_TEST_VLLM: expected the address of a vLLM server; see docs/vllm.md"),
]
BF16_NATS = 0.5
"""How far vLLM in bfloat16 may be from a trainer in float32: 0.34 was measured, and 3.4 to 4.2 with a stale head."""

needs_weights = pytest.mark.skipif(
    not WEIGHTS, reason="PROVER_TEST_VLLM_WEIGHTS: expected the folder of the weights that the server was started with"
)

CHATML = agents.make("chatml")
TASK = Task(environment="alfworld", task_id="generated/pick_and_place_simple/7", seed=0)
PROMPT = "<|im_start|>user\nName the capital of France.<|im_end|>\n<|im_start|>assistant\n"


@pytest.fixture
async def client() -> AsyncIterator[PolicyClient]:
    client = PolicyClient(ADDRESS, timeout_s=300.0)
    yield client
    await client.aclose()


@pytest.fixture
async def prompt(client: PolicyClient) -> tuple[int, ...]:
    return await client.tokenize(PROMPT)


async def greedy(client: PolicyClient, prompt: Sequence[int], *, max_tokens: int = 32) -> tuple[int, ...]:
    return (await client.complete(prompt, Sampling(temperature=0.0, max_tokens=max_tokens))).token_ids


async def test_info_names_a_model_a_version_and_how_much_it_reads(client: PolicyClient) -> None:
    info = await client.info()
    assert info.model and info.version
    assert info.max_context >= 1024


async def test_a_model_that_is_not_served_is_an_error_that_says_what_is() -> None:
    client = PolicyClient(ADDRESS, model="gpt")
    with pytest.raises(PolicyError, match=r"model: was 'gpt'; .* serves "):
        await client.info()
    await client.aclose()


async def test_every_sampled_token_has_its_logprob(client: PolicyClient, prompt: tuple[int, ...]) -> None:
    completion = await client.complete(prompt, Sampling(max_tokens=12, seed=4))
    assert 1 <= len(completion.token_ids) == len(completion.logprobs) <= 12
    assert all(-50.0 < logprob <= 0.0 for logprob in completion.logprobs)
    assert completion.policy_version == (await client.info()).version


async def test_special_tokens_are_tokens_and_none_is_added(client: PolicyClient, prompt: tuple[int, ...]) -> None:
    parts = ("<|im_start|>", "user\nName the capital of France.", "<|im_end|>", "\n")
    start, words, end, newline = [await client.tokenize(part) for part in parts]
    assert len(start) == len(end) == 1
    assert prompt[: 2 + len(words) + len(newline)] == (*start, *words, *end, *newline)


async def test_a_stop_token_is_in_the_tokens_and_not_in_the_text(client: PolicyClient, prompt: tuple[int, ...]) -> None:
    (stop,) = await stop_tokens(CHATML, client)
    completions = await asyncio.gather(
        *(client.complete(prompt, Sampling(max_tokens=64, seed=seed, stop_token_ids=(stop,))) for seed in range(8))
    )
    stopped = [completion for completion in completions if completion.finish_reason == "stop"]
    assert stopped
    for completion in stopped:
        assert completion.token_ids.index(stop) == len(completion.token_ids) - 1
        assert len(completion.logprobs) == len(completion.token_ids)
        assert CHATML.stop_text not in completion.text


async def test_any_token_can_be_a_stop_token(client: PolicyClient, prompt: tuple[int, ...]) -> None:
    first = (await greedy(client, prompt))[2]
    sampling = Sampling(temperature=0.0, max_tokens=16, stop_token_ids=(first,))
    completion = await client.complete(prompt, sampling)
    assert completion.finish_reason == "stop"
    assert completion.token_ids[-1] == first


async def test_one_seed_gives_one_answer(client: PolicyClient, prompt: tuple[int, ...]) -> None:
    first = await client.complete(prompt, Sampling(max_tokens=12, seed=7))
    again = await client.complete(prompt, Sampling(max_tokens=12, seed=7))
    others = [await client.complete(prompt, Sampling(max_tokens=12, seed=seed)) for seed in (8, 2**47, 2**48 - 1)]
    assert again.token_ids == first.token_ids
    assert len({completion.token_ids for completion in [first, *others]}) > 1


async def test_a_context_that_has_outgrown_the_engine_is_told_apart(client: PolicyClient) -> None:
    room = (await client.info()).max_context
    with pytest.raises(ContextTooLong, match=f"{room - 4} tokens and 5 to sample; expected at most {room} together"):
        await client.complete((5,) * (room - 4), Sampling(max_tokens=5))


class MisledAboutTheContext(PolicyClient):
    """Believes that the engine reads more than it does, so that the engine itself has to refuse."""

    async def _served(self) -> tuple[str, int]:
        model, room = await super()._served()
        return model, 2 * room


async def test_the_engines_own_refusal_of_a_long_context_is_told_apart(client: PolicyClient) -> None:
    misled = MisledAboutTheContext(ADDRESS)
    with pytest.raises(ContextTooLong, match="400"):
        await misled.complete((5,) * ((await client.info()).max_context + 10), Sampling(max_tokens=5))
    await misled.aclose()


async def test_a_token_that_the_engine_does_not_know_is_an_error_with_the_reason(client: PolicyClient) -> None:
    with pytest.raises(PolicyError, match=r"400: .*vocabulary"):
        await client.complete((1, 10**7), Sampling())


class Silent:
    """Nobody watches."""

    def finished(self, trajectory: Trajectory, seconds: float) -> None: ...

    def failed(self, attempt: object) -> None: ...


@pytest.fixture
async def group(client: PolicyClient) -> list[Trajectory]:
    publisher = SharedStorage(ADDRESS)
    rollout = Rollout(client, publisher=publisher, make_environment=make, max_concurrent=4, observer=Silent())
    order = GroupOrder(task=TASK, size=4, max_turns=5, agent="chatml", sampling=Sampling(max_tokens=16, seed=3))
    return [item async for item in rollout.sample_group(order) if isinstance(item, Trajectory)]


async def test_alfworld_trajectories_are_sampled_token_in_token_out(
    client: PolicyClient, group: list[Trajectory]
) -> None:
    assert len(group) == 4
    for trajectory in group:
        assert len(trajectory.turns) == 5
        for turn, following in zip(trajectory.turns, trajectory.turns[1:], strict=False):
            assert turn.context_token_ids is not None and turn.token_ids is not None
            reply = await client.tokenize(CHATML.reply(following.observation))
            assert following.context_token_ids == (*turn.context_token_ids, *turn.token_ids, *reply)


async def test_a_boundary_is_restored_with_its_tokens_and_played_on(
    client: PolicyClient, group: list[Trajectory]
) -> None:
    async def at(trajectory: Trajectory) -> None:
        restored = await restore(
            trajectory, 3, make=lambda: make("alfworld"), agent=CHATML, policy=client, fidelity="exact"
        )
        assert restored.begin.context_token_ids == trajectory.turns[3].context_token_ids
        played = await play(
            restored.fork(),
            restored.begin,
            agent=CHATML,
            policy=client,
            sampling=Sampling(max_tokens=16, stop_token_ids=await stop_tokens(CHATML, client)),
            max_turns=5,
        )
        assert played.turns[0].context_token_ids == trajectory.turns[3].context_token_ids
        assert played.policy_version == trajectory.policy_version

    for trajectory in group:
        await at(trajectory)


async def test_a_boundary_of_another_agent_is_not_restored(client: PolicyClient, group: list[Trajectory]) -> None:
    plain = agents.make("plain")
    with pytest.raises(NotRestorable, match=r"turn 0: context_token_ids: from token 0"):
        await restore(group[0], 3, make=lambda: make("alfworld"), agent=plain, policy=client, fidelity="exact")


def perturbed(folder: Path, *, version: str) -> Path:
    """The served weights with noise of a quarter of each matrix's spread: near enough to talk, and never the same.

    Embeddings stay: where the head is tied to them, vLLM 0.32 on the CPU does not reload the head (docs/vllm.md).
    """
    shutil.copytree(WEIGHTS, folder)
    torch.manual_seed(0)
    weights = {
        name: (tensor + 0.25 * tensor.float().std() * torch.randn(tensor.shape)).to(tensor.dtype)
        if tensor.ndim == 2 and ".layers." in name
        else tensor
        for name, tensor in load_file(folder / "model.safetensors").items()
    }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return named(folder, version)


def named(folder: Path, version: str) -> Path:
    (folder / "prover.json").write_text(json.dumps({"version": version}))
    return folder


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Path]:
    """The weights that the server was started with; they serve again afterwards."""
    folder = named(Path(shutil.copytree(WEIGHTS, tmp_path / "served")), "v0")
    yield folder
    asyncio.run(SharedStorage(ADDRESS).publish(str(folder)))


def probe_of(folder: Path, prompt: tuple[int, ...], *, tolerance: float) -> Probe:
    """The log-probabilities that a trainer with the weights of a folder computes."""
    model = AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32)

    async def score(context: Sequence[int], sampled: Sequence[int]) -> list[float]:
        with torch.no_grad():
            distribution = model(torch.tensor([[*context, *sampled]])).logits[0].log_softmax(-1)
        return [distribution[len(context) + place - 1, token].item() for place, token in enumerate(sampled)]

    return Probe(context_token_ids=prompt, score=score, tolerance=tolerance)


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


@pytest.mark.parametrize("protocol", ["auto", "native", "text"])
async def test_the_model_judge_proposes_or_says_why_not(protocol: str) -> None:
    async with httpx.AsyncClient(base_url=ADDRESS) as http:
        model = (await http.get("/v1/models")).json()["data"][0]["id"]
    endpoint = Endpoint(
        url=f"{ADDRESS}/v1", model=model, protocol=protocol, context_tokens=4096, reply_tokens=256, temperature=0.0
    )
    group = bell()
    judgement = await Llm(endpoint).propose(group, ProposeLimits(timeout_s=240))
    assert bool(judgement.proposals) != bool(judgement.no_proposal_reason)
    for proposal in judgement.proposals:
        assert segment_fault(proposal.segment, group.trajectory(proposal.segment.trajectory_id)) is None
    assert judgement.cost.input_tokens > 0
