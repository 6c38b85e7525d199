"""Pull mode: the caller plays the continuations; real HTTP, a real Redis, the real coordinator."""

import asyncio
import base64
import json
import random
import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from chain_world import OPTIONS, PIVOTAL, FixedJudge, Outbox, mixed_group
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prover.analysis import Options
from prover.client import AsyncProverClient, PlayedOutcome, ProblemError
from prover.credit.modes import mode
from prover.credit.rules import Evidence
from prover.lifecycle import Status
from prover.queues import ANALYZE, ANALYZE_TASK
from prover.store import AnalysisStore, open_store
from prover.trajectory import BoundaryCount, Group, Task, Verification
from services.gateway.gateway import Doors, Gateway
from services.gateway.pull import Pull, Request
from services.gateway.readiness import JudgeNames
from services.gateway.sweep import Sweep, Swept
from services.verifier.endings import Endings
from services.verifier.metrics import Metrics
from services.verifier.verifier import Coordinator
from tests.rest_server import FakeEngine, FakeJudge, RunningGateway, running_gateway

EXTERNAL = replace(OPTIONS, policy="embedded", continuations="external")
MINE = Task(environment="my-warehouse", task_id="aisle 7")


def in_my_environment(group: Group) -> Group:
    """The group as somebody hands it in whose environment nobody else has."""
    return replace(group, task=MINE, trajectories=tuple(replace(one, task=MINE) for one in group.trajectories))


def ended(request_id: str, sample: int, success: bool) -> PlayedOutcome:
    return {
        "request_id": request_id,
        "sample": sample,
        "success": success,
        "reward": float(success),
        "tokens": 5,
    }


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
    assert verdict["before"] == {"successes": 0, "samples": 4}


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


class Decisions:
    """Decides at once; may lose the message instead."""

    def __init__(self) -> None:
        self.coordinator: Coordinator | None = None
        self.sent: list[str] = []

    async def analyze(self, analysis_id: str) -> None:
        self.sent.append(analysis_id)

    async def decide(self, analysis_id: str, number: int) -> None:
        if self.coordinator is not None:
            await self.coordinator.decide(analysis_id, number)


@dataclass
class Parts:
    """Pull mode and the coordinator, without HTTP between them."""

    store: AnalysisStore
    pull: Pull
    decisions: Decisions
    coordinator: Coordinator

    async def begin(self, group: Group, options: Options) -> str:
        analysis_id = uuid4().hex
        await self.store.create(analysis_id, group, options)
        await self.coordinator.analyze(analysis_id)
        return analysis_id

    async def take(self, analysis_id: str, outcomes: list[PlayedOutcome]) -> tuple[int, int]:
        return await self.pull.take(analysis_id, json.dumps({"outcomes": outcomes}).encode())

    async def play_round(self, analysis_id: str) -> None:
        for request in (await self.pull.requests(analysis_id))[1]:
            await self.take(
                analysis_id, [ended(request.request_id, sample, False) for sample in range(request.samples)]
            )


def parts(redis_url: str, folder: Path) -> Parts:
    store, decisions = open_store(redis_url, folder.as_uri()), Decisions()
    doors = Doors(policies={"embedded": FakeEngine()}, judges=JudgeNames(FakeJudge()), check_task=None, max_active=10)
    coordinator = Coordinator(store, FixedJudge(), Outbox(), Endings(store, Metrics()))
    decisions.coordinator = coordinator
    pull = Pull(Gateway(store, decisions, doors), decisions)
    return Parts(store=store, pull=pull, decisions=decisions, coordinator=coordinator)


async def verdict_of(
    there: Parts, *, mode: str, wins: Mapping[str, list[bool]], shuffle: random.Random
) -> Verification:
    """Plays an analysis whose continuation n of a boundary ends as wins[side][n], in a disorder of one's own."""
    analysis_id = await there.begin(await mixed_group(), replace(EXTERNAL, mode=mode, samples=8))
    told: list[PlayedOutcome] = []
    count = 0
    while (found := await there.pull.requests(analysis_id))[0] is Status.VERIFYING:
        fresh = [outcome for request in found[1] for outcome in _play(request, wins)]
        count += len(fresh)
        # All of this round at least once, some of it again, and some of what earlier rounds have told.
        told += fresh
        telling = fresh + shuffle.sample(told, shuffle.randint(0, len(told)))
        shuffle.shuffle(telling)
        accepted = 0
        while telling:
            size = shuffle.randint(1, len(telling))
            now, telling = telling[:size], telling[size:]
            new, duplicates = await there.take(analysis_id, now)
            assert new + duplicates == len(now)
            accepted += new
        assert accepted == len(fresh)
    analysis = await there.store.get(analysis_id)
    assert analysis is not None
    assert analysis.verification is not None
    assert analysis.verification.before.samples + analysis.verification.after.samples == count
    return analysis.verification


def _play(request: Request, wins: Mapping[str, list[bool]]) -> list[PlayedOutcome]:
    return [
        ended(request.request_id, sample, wins[request.side][request.first + sample])
        for sample in range(request.samples)
    ]


def by_the_rule(name: str, wins: Mapping[str, list[bool]]) -> Verification:
    """The same without a service."""
    rule, counts = mode(name).rule, {"before": 0, "after": 0}
    while True:
        before, after = (
            BoundaryCount(successes=sum(wins[side][:played]), samples=played, tokens=5 * played)
            for side, played in counts.items()
        )
        evidence = Evidence(before=before, after=after, group_successes=2, group_size=8)
        plan = rule.plan(evidence, samples=8)
        if plan is None:
            return rule.settle(evidence, samples=8, weight=1.0)
        counts = {"before": plan.before, "after": plan.after}


WINS = st.lists(st.booleans(), min_size=8, max_size=8)


@given(mode=st.sampled_from(["fixed", "adaptive"]), before=WINS, after=WINS, seed=st.integers(0, 2**32))
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_order_batches_and_repetition_change_nothing(
    redis_url: str, tmp_path: Path, mode: str, before: list[bool], after: list[bool], seed: int
) -> None:
    wins = {"before": before, "after": after}

    async def play() -> Verification:
        there = parts(redis_url, tmp_path)
        try:
            return await verdict_of(there, mode=mode, wins=wins, shuffle=random.Random(seed))
        finally:
            await there.store.aclose()

    assert asyncio.run(play()) == by_the_rule(mode, wins)


@pytest.fixture
async def there(redis_url: str, tmp_path: Path) -> AsyncIterator[Parts]:
    made = parts(redis_url, tmp_path)
    yield made
    await made.store.aclose()


async def test_a_caller_may_take_its_time_but_not_for_ever(there: Parts) -> None:
    analysis_id = await there.begin(await mixed_group(), EXTERNAL)
    patient = Sweep(there.store, there.decisions, idle_s=0.01, report=lambda _: None)
    for _ in range(8):
        await asyncio.sleep(0.03)
        assert await patient.once() == Swept()
    assert not there.decisions.sent
    strict = Sweep(there.store, there.decisions, idle_s=0.01, report=lambda _: None, caller_limit_s=0.1)
    await asyncio.sleep(0.1)
    assert await strict.once() == Swept(failed=1)
    analysis = await there.store.get(analysis_id)
    assert analysis is not None
    assert analysis.status is Status.FAILED
    assert "expected the outcomes of r1-before, r1-after" in (analysis.error or "")


async def test_a_decision_that_is_lost_is_made_all_the_same(there: Parts) -> None:
    analysis_id = await there.begin(await mixed_group(), EXTERNAL)
    there.decisions.coordinator = None
    await there.play_round(analysis_id)
    sweep = Sweep(there.store, there.decisions, idle_s=0.01, report=lambda _: None)
    await asyncio.sleep(0.03)
    assert await sweep.once() == Swept(sent=1)
    await there.coordinator.analyze(there.decisions.sent[0])
    assert (await there.pull.requests(analysis_id))[0] is Status.DONE
