"""Pull mode: the caller plays the continuations; real HTTP, a real Redis, the real coordinator."""

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from chain_world import PIVOTAL, FixedJudge, Outbox, mixed_group
from pull_world import EXTERNAL, ended

from prover.client import AsyncProverClient, ProblemError
from prover.queues import ANALYZE, ANALYZE_TASK
from prover.trajectory import Group, Task
from services.verifier.endings import Endings
from services.verifier.metrics import Metrics
from services.verifier.verifier import Coordinator
from tests.rest_server import RunningGateway, running_gateway

MINE = Task(environment="my-warehouse", task_id="aisle 7")


def in_my_environment(group: Group) -> Group:
    """The group as somebody hands it in whose environment nobody else has."""
    return replace(group, task=MINE, trajectories=tuple(replace(one, task=MINE) for one in group.trajectories))


@dataclass
class Service:
    """A gateway, and a coordinator that takes the gateway's messages from Redis."""

    gateway: RunningGateway
    coordinator: Coordinator
    client: AsyncProverClient
    stopped: bool = False

    async def coordinate(self) -> None:
        while not self.stopped:
            taken: Any = await self.gateway.redis.lpop(ANALYZE)
            if taken is None:
                await asyncio.sleep(0.01)
                continue
            message = json.loads(taken)
            arguments = json.loads(base64.b64decode(message["body"]))[0]
            if message["headers"]["task"] == ANALYZE_TASK:
                await self.coordinator.analyze(*arguments)
            else:
                await self.coordinator.decide(*arguments)


@pytest.fixture
async def service(redis_url: str, tmp_path: Path) -> AsyncIterator[Service]:
    async with running_gateway(redis_url, tmp_path) as gateway, AsyncProverClient(gateway.url) as client:
        coordinator = Coordinator(gateway.store, FixedJudge(), Outbox(), Endings(gateway.store, Metrics()))
        running = Service(gateway=gateway, coordinator=coordinator, client=client)
        coordinating = asyncio.create_task(running.coordinate())
        yield running
        running.stopped = True
        await coordinating


async def test_the_loop_of_the_documentation_verifies_in_an_environment_of_ones_own(service: Service) -> None:
    text = (Path(__file__).parents[2] / "docs" / "rest.md").read_text()
    found = re.search(r"```python\n(from prover.client import ProverClient\n.*?)```", text, re.DOTALL)
    assert found is not None
    names: dict[str, Any] = {}
    exec(found[1].replace("ProverClient()", f"ProverClient({service.gateway.url!r})"), names)
    asked: list[tuple[str, int]] = []

    def play_from(trajectory_id: str, turn: int) -> tuple[bool, float, int]:
        asked.append((trajectory_id, turn))
        return turn > PIVOTAL.first_turn, float(turn > PIVOTAL.first_turn), 3

    verify: Callable[..., tuple[Any, Any]] = names["verify"]
    group = in_my_environment(await mixed_group())
    options = {"mode": "fixed", "samples": 4, "max_turns": 20}
    analysis, advantages = await asyncio.to_thread(verify, group, options, play_from)
    assert sorted(asked) == [("t0", 1)] * 4 + [("t0", 2)] * 4
    assert analysis["status"] == "done"
    assert analysis["verification"]["delta"] == analysis["verification"]["bonus"] == 1.0
    assert analysis["verification"]["tokens"] == {"before": 12, "after": 12}
    turns = advantages["trajectories"][0]["turns"]
    assert [turn["advantage"] - advantages["trajectories"][0]["group_advantage"] for turn in turns[:3]] == [0, 1, 0]


async def test_what_is_asked_for_stays_the_same_until_it_is_complete(service: Service) -> None:
    analysis_id = await service.client.submit(await mixed_group(), EXTERNAL)
    asked = await service.client.requests(analysis_id, wait_s=10)
    before = {"request_id": "r1-before", "trajectory_id": "t0", "before_turn": 1, "samples": 4}
    after = {"request_id": "r1-after", "trajectory_id": "t0", "before_turn": 2, "samples": 4}
    assert asked == {"status": "verifying", "requests": [before, after]}
    some = [ended("r1-before", sample, False) for sample in (3, 0)]
    assert await service.client.outcomes(analysis_id, some) == {"accepted": 2, "duplicates": 0}
    assert await service.client.outcomes(analysis_id, some) == {"accepted": 0, "duplicates": 2}
    assert await service.client.requests(analysis_id) == asked
    rest = [ended("r1-before", sample, False) for sample in range(4)]
    assert await service.client.outcomes(analysis_id, rest) == {"accepted": 2, "duplicates": 2}
    assert (await service.client.requests(analysis_id))["requests"] == [after]
    await service.client.outcomes(analysis_id, [ended("r1-after", sample, True) for sample in range(4)])
    assert await service.client.requests(analysis_id, wait_s=10) == {"status": "done", "requests": []}
    late = [ended("r1-before", 0, True)]
    assert await service.client.outcomes(analysis_id, late) == {"accepted": 0, "duplicates": 1}
    verdict = (await service.client.get(analysis_id))["verification"]
    assert verdict is not None
    assert verdict["before"] == {"successes": 0, "samples": 4, "policy_versions": []}


async def test_later_rounds_ask_for_what_is_missing_only(service: Service) -> None:
    analysis_id = await service.client.submit(await mixed_group(), replace(EXTERNAL, mode="adaptive", samples=16))
    rounds: list[str] = []
    played = 0
    while True:
        asked = await service.client.requests(analysis_id, wait_s=10)
        if asked["status"] == "done":
            break
        for request in asked["requests"]:
            assert request["request_id"] not in rounds
            rounds.append(request["request_id"])
            outcomes = [
                ended(request["request_id"], sample, request["before_turn"] == 2 or sample % 2 == 1)
                for sample in range(request["samples"])
            ]
            assert await service.client.outcomes(analysis_id, outcomes) == {
                "accepted": len(outcomes),
                "duplicates": 0,
            }
            played += len(outcomes)
        # The decision is on its way: until it is made, nothing is asked for.
    assert any(name.startswith("r2-") for name in rounds)
    assert (await service.client.get(analysis_id))["cost"]["continuations"] == played


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"request_id": "r2-before"}, "request_id"),
        ({"request_id": "r0-before"}, "request_id"),
        ({"request_id": "before"}, "request_id"),
        ({"sample": 4}, "sample"),
        ({"sample": -1}, "sample"),
        ({"reward": 1.5}, "reward"),
        ({"success": True, "reward": 0.0}, "reward"),
        ({"success": False, "reward": 1.0}, "reward"),
        ({"success": 1}, "success"),
        ({"tokens": -1}, "tokens"),
        ({"cost": 1}, "cost"),
    ],
)
async def test_an_outcome_that_cannot_be_is_refused_with_its_whole_batch(
    service: Service, changed: Mapping[str, object], field: str
) -> None:
    analysis_id = await service.client.submit(await mixed_group(), EXTERNAL)
    await service.client.requests(analysis_id, wait_s=10)
    wrong: Any = {**ended("r1-before", 1, False), **changed}
    with pytest.raises(ProblemError) as refused:
        await service.client.outcomes(analysis_id, [ended("r1-before", 0, False), wrong])
    assert (refused.value.status, refused.value.kind) == (422, "invalid-outcomes")
    assert [mistake["field"] for mistake in refused.value.mistakes] == [f"outcomes[1].{field}"]
    assert (await service.client.get(analysis_id))["cost"]["continuations"] == 0


async def test_where_the_service_plays_nobody_is_asked(service: Service) -> None:
    analysis_id = await service.client.submit(
        {"task": {"environment": "chain", "task_id": "generated/5/1"}, "trajectories": [smallest()]}
    )
    for call in (
        service.client.requests(analysis_id),
        service.client.outcomes(analysis_id, [ended("r1-after", 0, True)]),
    ):
        with pytest.raises(ProblemError) as refused:
            await call
        assert (refused.value.status, refused.value.kind) == (409, "not-external")
    with pytest.raises(ProblemError) as missing:
        await service.client.requests("nobody")
    assert missing.value.status == 404


async def test_an_unknown_environment_is_taken_in_only_where_the_caller_plays(service: Service) -> None:
    group = {"task": {"environment": "my-warehouse", "task_id": "aisle 7"}, "trajectories": [smallest()]}
    with pytest.raises(ProblemError) as refused:
        await service.client.submit(group)
    assert [mistake["field"] for mistake in refused.value.mistakes] == ["group.task.environment"]
    service.gateway.engine.away = True
    taken = await service.client.submit(group, {"continuations": "external"})
    assert (await service.client.get(taken))["policy_version"] == "external"


async def test_a_cancelled_analysis_asks_for_nothing_more(service: Service) -> None:
    analysis_id = await service.client.submit(await mixed_group(), EXTERNAL)
    await service.client.requests(analysis_id, wait_s=10)
    await service.client.cancel(analysis_id)
    assert await service.client.requests(analysis_id, wait_s=10) == {"status": "cancelled", "requests": []}
    late = [ended("r1-before", 0, True)]
    assert await service.client.outcomes(analysis_id, late) == {"accepted": 0, "duplicates": 1}


def smallest() -> dict[str, object]:
    return {"id": "t", "reward": 0.0, "success": False, "turns": [{"observation": "", "text": ""}]}
