"""The policy client, the episode loop and the model judge against a real vLLM: docs/vllm.md says how to serve one."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from prover import agents
from prover.credit.segments import segment_fault
from prover.environments import make
from prover.episodes import play, stop_tokens
from prover.policies import ContextTooLong, PolicyClient, PolicyError, Sampling
from prover.policies.publish import SharedStorage
from prover.trajectory import Task, Trajectory
from services.judge.llm import Endpoint, Llm
from services.judge.question import ProposeLimits
from services.rollout.rollout import GroupOrder, Rollout
from services.verifier.replay import NotRestorable
from services.verifier.restore import restore
from tests.real_vllm import ADDRESS, PROMPT, asking, greedy, needs_server
from tests.unit.judge.builders import bell

pytestmark = needs_server

CHATML = agents.make("chatml")
TASK = Task(environment="alfworld", task_id="generated/pick_and_place_simple/7", seed=0)


@pytest.fixture
async def client() -> AsyncIterator[PolicyClient]:
    async with asking() as client:
        yield client


@pytest.fixture
async def prompt(client: PolicyClient) -> tuple[int, ...]:
    return await client.tokenize(PROMPT)


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

    async def _served(self, version: str | None = None) -> tuple[str, int]:
        model, room = await super()._served(version)
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
