"""Several segments and signed credit, from the REST request to the advantages, through real processes and a real judge.

V is 0.25 up to the first pivotal room, 0.5 up to the second, then 1; and 0 once trapped. Where exactly the judge looks
is its own affair: whatever it names has a known worth.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from chain_world import LATE, OPTIONS, TASK, erring_group
from rest_system import System

from prover.analysis import Options
from prover.client import Advantages, AsyncProverClient
from prover.client.documents import Analysis, SegmentResult
from prover.environments.chain import value
from prover.local.stack import free_port
from prover.trajectory import Group, Task

SAMPLES = 64

pytestmark = pytest.mark.slow


@pytest.fixture
async def client(redis_url: str, tmp_path: Path) -> AsyncIterator[AsyncProverClient]:
    system = System(redis_url=redis_url, folder=tmp_path, judge_port=free_port(), engine_port=free_port())
    try:
        system.judge()
        await asyncio.to_thread(system.engine)
        system.verifier("coordinator", "coordinator")
        system.verifier("worker", "worker", batch_samples=16)
        system.gateway()
        await system.ready()
        async with AsyncProverClient(system.url, retries=10) as opened:
            yield opened
    finally:
        system.close()


def of_success(segment: SegmentResult) -> bool:
    return segment["proposal"]["trajectory_id"] in ("t0", "t1")


def worth(segment: SegmentResult, task: Task, *, trapped_in: int | None = None) -> float:
    """The exact V(after) - V(before), by turns: turn t is in room t. `trapped_in`: the room in which its run erred."""

    def value_at(turn: int) -> float:
        return 0.0 if trapped_in is not None and turn > trapped_in else value(task, turn, lambda _: 0.5)

    proposal = segment["proposal"]
    return value_at(proposal["last_turn"] + 1) - value_at(proposal["first_turn"])


def close_to(segment: SegmentResult, truth: float) -> bool:
    verdict = segment["verification"]
    assert verdict is not None
    rates = [verdict[side]["successes"] / verdict[side]["samples"] for side in ("before", "after")]
    assert verdict["delta"] == pytest.approx(rates[1] - rates[0])
    return abs(verdict["delta"] - truth) < 4 * (2 * 0.25 / SAMPLES) ** 0.5


def expected(group: Group, analysis: Analysis) -> Mapping[tuple[str, int], float]:
    """By method.md, for every turn: A_i = R_i - mean(R), and each segment's bonus on the turns inside it."""
    mean = sum(member.reward for member in group.trajectories) / len(group.trajectories)
    found = {
        (member.id, turn): member.reward - mean for member in group.trajectories for turn in range(len(member.turns))
    }
    for segment in analysis["segments"]:
        proposal, verdict = segment["proposal"], segment["verification"]
        assert verdict is not None
        for turn in range(proposal["first_turn"], proposal["last_turn"] + 1):
            found[proposal["trajectory_id"], turn] += verdict["bonus"]
    return found


def given(advantages: Advantages) -> Mapping[tuple[str, int], float]:
    """Every turn's advantage, which each of its sampled tokens has too."""
    found: dict[tuple[str, int], float] = {}
    for member in advantages["trajectories"]:
        for turn in member["turns"]:
            assert turn["token_advantages"] is not None
            assert set(turn["token_advantages"]) == {turn["advantage"]}
            found[member["trajectory_id"], turn["turn"]] = turn["advantage"]
    return found


async def verified(client: AsyncProverClient, task: Task, *, pivots: tuple[int, int], options: Options) -> Analysis:
    """The analysis of the group, its advantages checked."""
    group = await erring_group(task, pivots=pivots)
    analysis = await client.wait(await client.submit(group, options), timeout_s=100)
    assert analysis["status"] == "done", analysis["error"]
    assert given(await client.advantages(analysis["id"])) == pytest.approx(expected(group, analysis))
    first = analysis["segments"][0]
    assert (analysis["proposal"], analysis["verification"]) == (first["proposal"], first["verification"])
    return analysis


async def test_two_segments_of_a_success_are_verified_and_paid(client: AsyncProverClient) -> None:
    task = replace(TASK, task_id="8/1,6")
    options = replace(OPTIONS, proposals=2, samples=SAMPLES)
    analysis = await verified(client, task, pivots=(1, 6), options=options)
    worths = {worth(segment, task): segment for segment in analysis["segments"]}
    assert sorted(worths) == [0.25, 0.5]
    assert all(of_success(segment) and close_to(segment, truth) for truth, segment in worths.items())
    sides = {side for segment in analysis["segments"] for side in segment["sides"]}
    assert analysis["cost"]["continuations"] == len(sides) * SAMPLES
    events = [event async for event in client.events(analysis["id"]) if event.event == "outcome"]
    assert {event.data["side"] for event in events} == sides
    assert len({(event.data["side"], event.data["sample"]) for event in events}) == len(events) == len(sides) * SAMPLES


async def test_a_mistake_of_a_failed_run_is_verified_and_charged(client: AsyncProverClient) -> None:
    options = replace(OPTIONS, credit="signed", samples=SAMPLES, weight=2.0)
    analysis = await verified(client, LATE, pivots=(1, 3), options=options)
    success, mistake = analysis["segments"]
    assert of_success(success)
    assert close_to(success, worth(success, LATE))
    assert not of_success(mistake)
    run = int(mistake["proposal"]["trajectory_id"].removeprefix("t"))
    truth = worth(mistake, LATE, trapped_in=1 if run < 6 else 3)
    assert truth < 0
    assert close_to(mistake, truth)
    assert mistake["verification"] is not None
    assert mistake["verification"]["bonus"] == pytest.approx(2 * mistake["verification"]["delta"])
    assert mistake["verification"]["bonus"] < 0
