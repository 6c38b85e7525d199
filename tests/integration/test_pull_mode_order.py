"""Pull mode: outcomes in any order, in any batches, twice, late or lost give what the rule says, and nothing else."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

import pytest
from chain_world import FixedJudge, Outbox, mixed_group
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pull_world import EXTERNAL, ended

from prover.analysis import Options
from prover.client import PlayedOutcome
from prover.credit.modes import mode
from prover.credit.rules import Evidence
from prover.lifecycle import Status
from prover.store import AnalysisStore, open_store
from prover.trajectory import BoundaryCount, Group, Verification
from services.gateway.gateway import Doors, Gateway
from services.gateway.pull import Pull, Request
from services.gateway.readiness import JudgeNames
from services.gateway.sweep import Sweep, Swept
from services.verifier.endings import Endings
from services.verifier.metrics import Metrics
from services.verifier.verifier import Coordinator
from tests.rest_server import FakeEngine, FakeJudge


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
