"""Every process of the real system is killed with -9 in turn, in the middle of an analysis, and nothing is lost."""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from prover.client import AsyncProverClient, GatewayUnreachable
from prover.credit.eligibility import eligible
from prover.environments.alfworld.generate import TEST_SEEDS
from prover.local import LocalStack
from prover.policies.policy import Sampling
from prover.rpc.channels import open_channel
from prover.rpc.clients import RolloutClient
from prover.trajectory import Group, Task

SAMPLES = 8
END_LIMIT_S = 180.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LocalStack]:
    """All services as `prover up` starts them, supervised."""
    running = LocalStack(data_dir=Path(tmp_path_factory.mktemp("stack")), port=0, workers=2)
    await running.start(timeout_s=240.0)
    yield running
    await running.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def group(stack: LocalStack) -> Group:
    """A mixed group of a generated game, sampled from the embedded policy."""
    async with open_channel(stack.addresses.rollout) as channel:
        rollouts = RolloutClient(channel)
        for seed in TEST_SEEDS:
            task = Task(environment="alfworld", task_id=f"generated/pick_and_place_simple/{seed}")
            sampled = rollouts.sample_group(
                task, size=8, max_turns=20, agent="plain", sampling=Sampling(seed=seed), timeout_s=300.0
            )
            members = [trajectory async for trajectory in sampled]
            if eligible(sum(member.success for member in members), len(members)):
                ordered = tuple(sorted(members, key=lambda member: member.id))
                return Group(task=task, policy_version=ordered[0].policy_version, trajectories=ordered)
    raise AssertionError("no mixed group in all the held-out games")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", ["verifier-1", "verifier-2", "coordinator", "engine", "judge", "redis", "gateway"])
async def test_a_process_killed_in_the_middle_of_an_analysis_costs_time_and_nothing_else(
    stack: LocalStack, group: Group, name: str
) -> None:
    async with AsyncProverClient(stack.addresses.gateway, retries=20) as client:
        analysis_id = await client.submit(group, {"mode": "fixed", "samples": SAMPLES, "max_turns": 20})
        await _some_progress(client, analysis_id)
        killed = stack.pids()[name]
        os.kill(killed, signal.SIGKILL)
        analysis = await client.wait(analysis_id, timeout_s=END_LIMIT_S)
        assert analysis["status"] == "done", analysis
        verification = analysis["verification"]
        assert verification is not None
        assert (verification["before"]["samples"], verification["after"]["samples"]) == (SAMPLES, SAMPLES)
        events = [event.data async for event in client.events(analysis_id) if event.event == "outcome"]
        outcomes = Counter((outcome["side"], outcome["sample"]) for outcome in events)
        assert set(outcomes.values()) == {1} and len(outcomes) == 2 * SAMPLES
        credited = await client.advantages(analysis_id)
        assert len(credited["trajectories"]) == len(group.trajectories)
        await _restarted(stack, name, killed)


async def _some_progress(client: AsyncProverClient, analysis_id: str) -> None:
    """Until the first outcome is in: the middle of the work."""
    async for event in client.events(analysis_id):
        if event.event == "outcome":
            return


async def _restarted(stack: LocalStack, name: str, killed: int) -> None:
    """The supervisor has put another one in its place, and everything is ready again."""
    async with asyncio.timeout(60.0), AsyncProverClient(stack.addresses.gateway) as client:
        while stack.pids()[name] == killed:
            await asyncio.sleep(0.1)
        while True:
            try:
                await client.policy()
                return
            except GatewayUnreachable:
                await asyncio.sleep(0.2)
