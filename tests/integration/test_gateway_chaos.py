"""Two hundred analyses through REST while coordinators and workers are killed at random, as kill -9 does.

Two of each are at work; every few seconds one of the four is killed in whatever it was doing and started again a moment
later. Redis, broker, judge and engine are real and stay up.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from chain_world import OPTIONS, mixed_group
from rest_system import System
from verifier_processes import until

from prover.client import AsyncProverClient
from prover.client.documents import Advantages, Analysis, Continuations
from prover.credit.advantages import assign_credit
from prover.credit.modes import MODES
from prover.local.stack import free_port
from prover.trajectory import Group, Segment

ANALYSES = 200
FEWEST_KILLS = 8
ROLES = {"coordinator-1": "coordinator", "coordinator-2": "coordinator", "worker-1": "worker", "worker-2": "worker"}


@pytest.fixture
async def system(redis_url: str, tmp_path: Path) -> AsyncIterator[System]:
    started = System(redis_url=redis_url, folder=tmp_path, judge_port=free_port(), engine_port=free_port())
    try:
        started.judge()
        await asyncio.to_thread(started.engine, pause_s=0.05)
        for name, role in ROLES.items():
            started.verifier(role, name)
        started.gateway()
        await started.ready()
        yield started
    finally:
        started.close()


@dataclass
class Killer:
    """Kills one of the verifier's processes after another."""

    system: System
    dice: random.Random = field(default_factory=lambda: random.Random(5))
    kills: Counter[str] = field(default_factory=Counter)

    async def run(self, over: asyncio.Event) -> None:
        """Until it is over and there were enough of them."""
        while not over.is_set() or self.kills.total() < FEWEST_KILLS:
            await asyncio.sleep(self.dice.uniform(1.0, 4.0))
            name = self.dice.choice(sorted(ROLES))
            self.system.kill(name)
            self.kills[ROLES[name]] += 1
            await asyncio.sleep(self.dice.uniform(0.0, 1.0))
            self.system.verifier(ROLES[name], name)


async def submit_all(client: AsyncProverClient, group: Group) -> list[str]:
    """The ids: every mode in turn, and half of the time all continuations kept."""
    modes = sorted(MODES)
    found: list[str] = []
    for number in range(ANALYSES):
        mode = modes[number % len(modes)]
        samples = 1 if mode in ("audited", "frugal") else 4
        kept = number // len(modes) % 2 == 0
        found.append(await client.submit(group, replace(OPTIONS, mode=mode, samples=samples, keep_continuations=kept)))
    return found


async def counted(client: AsyncProverClient, analysis: Analysis) -> int:
    """How many continuations the verdict is made of: those of the events, those of the cost, those that were kept."""
    verdict = analysis["verification"]
    assert verdict is not None
    seen: dict[str, dict[int, bool]] = {"before": {}, "after": {}}
    number = 0
    async for event in client.events(analysis["id"]):
        if event.event == "outcome":
            seen[str(event.data["side"])][int(str(event.data["sample"]))] = bool(event.data["success"])
            number += 1
    for side in ("before", "after"):
        assert sorted(seen[side]) == list(range(verdict[side]["samples"]))
        assert sum(seen[side].values()) == verdict[side]["successes"]
    assert number == analysis["cost"]["continuations"] == verdict["before"]["samples"] + verdict["after"]["samples"]
    if analysis["options"]["keep_continuations"]:
        assert successes(await client.continuations(analysis["id"])) == {side: s for side, s in seen.items() if s}
    return number


def successes(kept: Continuations) -> Mapping[str, Mapping[int, bool]]:
    """Of the continuations that were kept, by side and sample."""
    return {
        boundary["side"]: {one["sample"]: bool(one["trajectory"]["success"]) for one in boundary["continuations"]}
        for boundary in kept["boundaries"]
    }


def paid(advantages: Advantages, group: Group, analysis: Analysis) -> bool:
    """Whether the advantages are those that follow from the verdict."""
    proposal, verdict = analysis["proposal"], analysis["verification"]
    assert proposal is not None
    assert verdict is not None
    segment = Segment(
        trajectory_id=proposal["trajectory_id"], first_turn=proposal["first_turn"], last_turn=proposal["last_turn"]
    )
    wanted = assign_credit(group, bonuses={segment: verdict["bonus"]})
    given = [[turn["advantage"] for turn in member["turns"]] for member in advantages["trajectories"]]
    return given == [[pytest.approx(turn.advantage) for turn in member.turns] for member in wanted]


@pytest.mark.slow
@pytest.mark.timeout(200)
async def test_two_hundred_analyses_outlive_processes_that_are_killed_at_random(system: System) -> None:
    group, killer, over = await mixed_group(), Killer(system), asyncio.Event()
    async with AsyncProverClient(system.url, retries=10) as client:
        killing = asyncio.create_task(killer.run(over))
        ids = await submit_all(client, group)
        analyses = [await client.wait(analysis_id, timeout_s=150) for analysis_id in ids]
        over.set()
        await killing
        assert Counter(analysis["status"] for analysis in analyses) == {"done": ANALYSES}
        assert min(killer.kills["coordinator"], killer.kills["worker"]) >= 2, killer.kills
        numbers = [await counted(client, analysis) for analysis in analyses]
        store = system.store
        stored = [await store.count(analysis_id, side) for analysis_id in ids for side in ("before", "after")]
        assert sum(numbers) == sum(count.samples for count in stored)
        for analysis in analyses:
            assert paid(await client.advantages(analysis["id"]), group, analysis)
        modes = [str(analysis["options"]["mode"]) for analysis in analyses]
        audited = sum(number > 0 for number, mode in zip(numbers, modes, strict=True) if mode == "audited")
        (record,) = (await client.judge_record("contrast"))["records"]
        assert record["audits"] == audited

        async def drained() -> bool:
            return system.messages() == 0

        await until(drained, timeout_s=30)
