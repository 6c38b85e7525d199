"""From the REST request to the advantages, through real processes, and each of them killed in turn."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from chain_world import OPTIONS, PIVOTAL, mixed_group
from rest_system import System
from verifier_processes import JudgeService, serve_judge

from prover.client import Advantages, AsyncProverClient, PlayedOutcome
from prover.local.stack import free_port
from prover.trajectory import Group


@pytest.fixture
async def system(redis_url: str, tmp_path: Path) -> AsyncIterator[System]:
    server = await serve_judge(JudgeService(PIVOTAL))
    started = System(redis_url=redis_url, folder=tmp_path, judge_port=server.port, engine_port=free_port())
    try:
        yield started
    finally:
        started.close()
        await server.stop(0.0)


def expected_advantages(group: Group, bonus: float) -> Advantages:
    """By method.md, computed here again: A_i = R_i - mean(R), and the bonus on the sampled tokens of the segment."""
    mean = sum(trajectory.reward for trajectory in group.trajectories) / len(group.trajectories)
    answer: Advantages = {"trajectories": []}
    for trajectory in group.trajectories:
        advantage = trajectory.reward - mean
        credited = {
            number: advantage + bonus * (trajectory.id == PIVOTAL.trajectory_id and number == PIVOTAL.first_turn)
            for number in range(len(trajectory.turns))
        }
        answer["trajectories"].append(
            {
                "trajectory_id": trajectory.id,
                "group_advantage": advantage,
                "turns": [
                    {
                        "turn": number,
                        "advantage": credited[number],
                        "token_advantages": [credited[number]] * len(turn.token_ids or ()),
                    }
                    for number, turn in enumerate(trajectory.turns)
                ],
            }
        )
    return answer


async def settle(client: AsyncProverClient, group: Group, analysis_id: str, samples: int) -> None:
    """The analysis ends with every outcome counted once and the advantages that follow from them."""
    analysis = await client.wait(analysis_id, timeout_s=100)
    assert analysis["status"] == "done", analysis["error"]
    found = analysis["verification"]
    assert found is not None
    assert (found["before"]["samples"], found["after"]["samples"]) == (samples, samples)
    delta = (found["after"]["successes"] - found["before"]["successes"]) / samples
    assert found["delta"] == pytest.approx(delta)
    assert found["bonus"] == pytest.approx(max(delta, 0.0))
    assert analysis["cost"]["continuations"] == 2 * samples
    outcomes = [event async for event in client.events(analysis_id) if event.event == "outcome"]
    assert len({(event.data["side"], event.data["sample"]) for event in outcomes}) == len(outcomes) == 2 * samples
    advantages = await client.advantages(analysis_id)
    for given, wanted in zip(
        advantages["trajectories"], expected_advantages(group, found["bonus"])["trajectories"], strict=True
    ):
        assert given["group_advantage"] == pytest.approx(wanted["group_advantage"], abs=1e-9)
        for turn, other in zip(given["turns"], wanted["turns"], strict=True):
            assert turn["turn"] == other["turn"]
            assert turn["token_advantages"] == pytest.approx(other["token_advantages"], abs=1e-9)


async def test_a_group_goes_in_and_verified_advantages_come_out(system: System) -> None:
    system.engine()
    system.verifier("coordinator", "coordinator")
    system.verifier("worker", "worker")
    system.gateway()
    await system.ready()
    group = await mixed_group()
    async with AsyncProverClient(system.url, retries=10) as client:
        assert await client.policy() == {"model": "chain", "version": "v0"}
        await settle(client, group, await client.submit(group, replace(OPTIONS, samples=8)), 8)
        lost = tuple(replace(member, success=False, reward=0.0) for member in group.trajectories)
        plain = await client.wait(await client.submit(replace(group, trajectories=lost), OPTIONS), timeout_s=30)
        assert (plain["status"], plain["verification"]) == ("not_eligible", None)
        assert plain["note"] or plain["error"]
        advantages = await client.advantages(plain["id"])
        assert {turn["advantage"] for member in advantages["trajectories"] for turn in member["turns"]} == {0.0}


@pytest.mark.slow
async def test_every_process_may_be_killed_in_turn(system: System) -> None:
    system.engine(pause_s=0.05)
    system.verifier("coordinator", "coordinator")
    system.verifier("worker", "worker")
    system.gateway()
    await system.ready()
    group = await mixed_group()
    async with AsyncProverClient(system.url, retries=12) as client:
        ids = [await client.submit(group, replace(OPTIONS, samples=16)) for _ in range(3)]
        for name in ("worker", "coordinator", "gateway", "engine"):
            await asyncio.sleep(1.0)
            system.kill(name)
            restart = {"engine": partial(system.engine, pause_s=0.05), "gateway": system.gateway}
            # In a thread: the judge serves from this one.
            await asyncio.to_thread(restart.get(name, partial(system.verifier, name, name)))
        await system.ready()
        for analysis_id in ids:
            await settle(client, group, analysis_id, 16)


@pytest.mark.slow
async def test_a_caller_verifies_with_continuations_of_its_own_through_real_processes(system: System) -> None:
    system.verifier("coordinator", "coordinator")
    system.gateway()
    await system.ready()
    async with AsyncProverClient(system.url, retries=10) as client:
        analysis_id = await client.submit(await mixed_group(), replace(OPTIONS, continuations="external"))
        while (asked := await client.requests(analysis_id, wait_s=20))["status"] != "done":
            assert asked["status"] in ("queued", "proposing", "verifying")
            for request in asked["requests"]:
                won = request["before_turn"] > PIVOTAL.first_turn
                for sample in range(request["samples"]):
                    outcome = PlayedOutcome(
                        request_id=request["request_id"], sample=sample, success=won, reward=float(won), tokens=1
                    )
                    await client.outcomes(analysis_id, [outcome])
        verification = (await client.get(analysis_id))["verification"]
        assert verification is not None
        assert verification["bonus"] == 1.0
