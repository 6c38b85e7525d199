"""`LearnerService` over a real gRPC connection, publishing into a real embedded engine over HTTP."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from prometheus_client import CollectorRegistry
from served_engine import serve, tiny_engine_app
from tiny_policy import random_trajectory, write_tiny_weights

from prover.policies.client import PolicyClient
from prover.policies.policy import Sampling
from prover.policies.publish import SharedStorage
from prover.rpc.channels import open_channel
from prover.rpc.clients import LearnerClient, RpcError
from prover.rpc.servers import Server
from prover.training.learner_experiment import LearnerExperiment
from prover.trajectory import Turn
from services.learner.grpc_server import learner_service
from services.learner.learner import Learner
from services.learner.metrics import LearnerMetrics
from services.learner.serial import SerialLearner, tokenize_probe

BATCH = tuple(random_trajectory(seed) for seed in range(4))
LIMIT_S = 60.0


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    return write_tiny_weights(tmp_path / "weights")


@pytest.fixture
def engine(weights: Path) -> Iterator[str]:
    with serve(tiny_engine_app(weights)) as url:
        yield url


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
async def client(
    weights: Path, tmp_path: Path, engine: str, registry: CollectorRegistry
) -> AsyncIterator[LearnerClient]:
    serial = SerialLearner(
        Learner(weights, tmp_path / "out", LearnerExperiment(learning_rate=1e-2)),
        SharedStorage(engine),
        probe_tokens=tokenize_probe(weights),
        probe_tolerance=1e-3,
        observer=LearnerMetrics(registry),
    )
    server = Server([learner_service(serial)])
    await server.start()
    channel: grpc.aio.Channel = open_channel(f"127.0.0.1:{server.port}")
    yield LearnerClient(channel)
    await channel.close()
    await server.stop(0)
    serial.close()


async def test_a_step_is_taken_published_and_sampled_from(client: LearnerClient, engine: str) -> None:
    turns = BATCH[0].trajectory.turns
    before = await client.score(turns, timeout_s=LIMIT_S)
    metrics = await client.step(BATCH, timeout_s=LIMIT_S)
    published = await client.publish(timeout_s=LIMIT_S)
    policy = PolicyClient(engine)
    completion = await policy.complete((1, 2, 3), Sampling(max_tokens=4, seed=0))
    turn = Turn(observation="", text="", action=None, context_token_ids=(1, 2, 3), token_ids=completion.token_ids)
    assert (metrics.step, published.version, completion.policy_version) == (1, "v1", "v1")
    assert published.probe_difference < 1e-3
    assert (await client.score([turn], timeout_s=LIMIT_S))[0] == pytest.approx(completion.logprobs, abs=1e-3)
    assert await client.score(turns, timeout_s=LIMIT_S) != before
    await policy.aclose()


async def test_the_state_tells_what_was_taken_and_what_serves(client: LearnerClient) -> None:
    state = await client.state(timeout_s=LIMIT_S)
    assert (state.step, state.version, state.published) == (0, "v0", "")
    await client.step(BATCH, timeout_s=LIMIT_S)
    state = await client.state(timeout_s=LIMIT_S)
    assert (state.step, state.version, state.published) == (1, "v1", "")
    await client.publish(timeout_s=LIMIT_S)
    assert (await client.state(timeout_s=LIMIT_S)).published == "v1"


async def test_steps_that_come_together_are_taken_one_after_the_other(client: LearnerClient) -> None:
    answers = await asyncio.gather(*(client.step(BATCH, timeout_s=LIMIT_S) for _ in range(4)))
    assert sorted(answer.step for answer in answers) == [1, 2, 3, 4]


async def test_more_calls_than_may_wait_are_refused(client: LearnerClient) -> None:
    calls = (client.step(BATCH, timeout_s=LIMIT_S) for _ in range(40))
    answers = await asyncio.gather(*calls, return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, RpcError)]
    assert refused
    assert all("RESOURCE_EXHAUSTED" in str(answer) for answer in refused)
    assert (await client.state(timeout_s=LIMIT_S)).step == len(answers) - len(refused)


async def test_a_step_whose_caller_gave_up_is_taken_whole_and_only_once(client: LearnerClient) -> None:
    with pytest.raises(RpcError, match="DEADLINE_EXCEEDED"):
        await client.step([random_trajectory(seed, turns=20) for seed in range(300)], timeout_s=0.3, after_step=0)
    metrics = await client.step(BATCH, timeout_s=LIMIT_S, after_step=0)
    assert metrics.step == 1
    assert (await client.state(timeout_s=LIMIT_S)).step == 1


async def test_a_repeated_step_is_answered_and_not_taken_again(client: LearnerClient) -> None:
    first = await client.step(BATCH, timeout_s=LIMIT_S, after_step=0)
    assert await client.step(BATCH, timeout_s=LIMIT_S, after_step=0) == first
    with pytest.raises(RpcError, match=r"FAILED_PRECONDITION: after_step: was 5; expected 1"):
        await client.step(BATCH, timeout_s=LIMIT_S, after_step=5)


async def test_what_cannot_be_trained_on_is_the_callers_mistake(client: LearnerClient) -> None:
    trajectory = BATCH[0].trajectory
    turns = tuple(replace(turn, logprobs=None) for turn in trajectory.turns)
    nameless = replace(BATCH[0], trajectory=replace(trajectory, turns=turns))
    with pytest.raises(
        RpcError, match=r"INVALID_ARGUMENT: trajectory 't0': turns\[0\]\.logprobs: was absent"
    ) as failed:
        await client.step([nameless], timeout_s=LIMIT_S)
    assert failed.value.invalid
    with pytest.raises(RpcError, match="INVALID_ARGUMENT: batch: held no sampled tokens"):
        await client.step([], timeout_s=LIMIT_S)


async def test_a_publish_that_fails_leaves_the_old_version_and_may_be_tried_again(
    client: LearnerClient, tmp_path: Path, engine: str, registry: CollectorRegistry
) -> None:
    await client.publish(timeout_s=LIMIT_S)
    await client.step(BATCH, timeout_s=LIMIT_S)
    blocker = tmp_path / "out/versions/.unfinished-v1"
    blocker.write_text("in the way of a folder")
    with pytest.raises(RpcError, match=r"RESOURCE_EXHAUSTED: .*versions/v1"):
        await client.publish(timeout_s=LIMIT_S)
    policy = PolicyClient(engine)
    assert (await policy.info()).version == "v0"
    blocker.unlink()
    assert (await client.publish(timeout_s=LIMIT_S)).version == "v1"
    assert (await policy.info()).version == "v1"
    assert registry.get_sample_value("prover_learner_publishes_total", {"result": "served"}) == 2
    await policy.aclose()
