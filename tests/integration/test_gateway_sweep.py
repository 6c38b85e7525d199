"""The sweep against a real Redis: whatever is lost is sent again, and what never moves is given up with a reason."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from prover.analysis import Options
from prover.lifecycle import Status
from prover.queues import ANALYZE
from prover.store import AnalysisStore, open_store
from services.gateway.examples import SUBMISSION_EXAMPLE
from services.gateway.gateway import Doors, Gateway, QueueDown
from services.gateway.models import Submission
from services.gateway.readiness import JudgeNames
from services.gateway.sweep import Sweep, Swept
from tests.rest_server import FakeEngine, FakeJudge

IDLE_S = 0.3


class FakeQueue:
    """Keeps what was sent; can be away."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.away = False

    async def analyze(self, analysis_id: str) -> None:
        if self.away:
            raise QueueDown("connection refused")
        self.sent.append(analysis_id)


@pytest.fixture
async def store(redis_url: str, tmp_path: Path) -> AsyncIterator[AnalysisStore]:
    opened = open_store(redis_url, tmp_path.as_uri())
    yield opened
    await opened.aclose()


@pytest.fixture
def queue() -> FakeQueue:
    return FakeQueue()


def sweep_of(store: AnalysisStore, queue: FakeQueue) -> Sweep:
    return Sweep(store, queue, idle_s=IDLE_S, report=lambda _: None)


async def stored(store: AnalysisStore, name: str = "a") -> str:
    group = Submission.model_validate(SUBMISSION_EXAMPLE, strict=False).group.to_noun("v0")
    await store.create(name, group, Options())
    return name


async def idle() -> None:
    await asyncio.sleep(2 * IDLE_S)


async def test_an_analysis_that_nothing_happens_to_is_sent_again(store: AnalysisStore, queue: FakeQueue) -> None:
    sweep = sweep_of(store, queue)
    await stored(store)
    assert await sweep.once() == Swept(), "it is not idle yet"
    await idle()
    assert await sweep.once() == Swept(sent=1)
    assert queue.sent == ["a"]
    assert await sweep.once() == Swept(), "it has just been sent"


async def test_an_analysis_that_never_moves_is_given_up_with_what_to_look_at(
    store: AnalysisStore, queue: FakeQueue
) -> None:
    sweep = sweep_of(store, queue)
    await stored(store)
    await store.move("a", Status.PROPOSING)
    total = Swept()
    while total.failed == 0:
        await idle()
        swept = await sweep.once()
        total = Swept(sent=total.sent + swept.sent, failed=total.failed + swept.failed)
    assert total == Swept(sent=5, failed=1)
    analysis = await store.get("a")
    assert analysis is not None
    assert analysis.status is Status.FAILED
    assert analysis.error is not None
    assert "no progress in state proposing after 5 attempts; look at the judge 'contrast'" in analysis.error
    assert await store.active() == 0


async def test_progress_begins_the_count_again(store: AnalysisStore, queue: FakeQueue) -> None:
    sweep = sweep_of(store, queue)
    await stored(store)
    for _ in range(2):
        await asyncio.sleep(5 * IDLE_S)
        await sweep.once()
    before = await store.get("a")
    await store.move("a", Status.PROPOSING)
    after = await store.get("a")
    assert before is not None
    assert after is not None
    assert (before.attempts, after.attempts) == (2, 0)


async def test_who_says_that_it_is_at_work_is_left_alone(store: AnalysisStore, queue: FakeQueue) -> None:
    sweep = sweep_of(store, queue)
    await stored(store)
    await idle()
    await store.keep_alive("a")
    assert await sweep.once() == Swept()


async def test_an_analysis_in_line_is_neither_sent_nor_given_up(
    store: AnalysisStore, queue: FakeQueue, redis_url: str
) -> None:
    sweep = sweep_of(store, queue)
    await stored(store)
    async with Redis.from_url(redis_url) as redis:
        await redis.lpush(ANALYZE, "a message that no worker has taken yet")
    for _ in range(8):
        await asyncio.sleep(IDLE_S)
        assert await sweep.once() == Swept()
    await asyncio.sleep(16 * IDLE_S)
    assert await sweep.once() == Swept(sent=1), "its own message may be lost all the same"
    for _ in range(8):
        await asyncio.sleep(IDLE_S)
        assert await sweep.once() == Swept(), "it would only make the line longer"
    await asyncio.sleep(20 * IDLE_S)
    assert await sweep.once() == Swept(sent=1)
    analysis = await store.get("a")
    assert analysis is not None
    assert (analysis.status, analysis.attempts) == (Status.QUEUED, 0)


async def test_what_has_ended_or_is_gone_is_not_swept(store: AnalysisStore, queue: FakeQueue) -> None:
    sweep = sweep_of(store, queue)
    await stored(store, "ended")
    await stored(store, "gone")
    await store.move("ended", Status.CANCELLED)
    await store.delete("gone")
    await idle()
    assert await sweep.once() == Swept()


async def test_one_gateway_at_a_time_sweeps(store: AnalysisStore) -> None:
    assert await store.hold_lock("sweep", owner="one", ttl_s=0.2)
    assert not await store.hold_lock("sweep", owner="two", ttl_s=0.2)
    assert await store.hold_lock("sweep", owner="one", ttl_s=0.2), "the owner holds on"
    await asyncio.sleep(0.3)
    assert await store.hold_lock("sweep", owner="two", ttl_s=0.2), "an owner that is gone loses it"


async def test_a_broker_that_is_away_costs_time_and_nothing_else(store: AnalysisStore, queue: FakeQueue) -> None:
    judge, engine = FakeJudge(), FakeEngine()
    doors = Doors(policies={"embedded": engine}, judges=JudgeNames(judge), check_task=None, max_active=10)
    gateway = Gateway(store, queue, doors)
    queue.away = True
    body = Submission.model_validate(SUBMISSION_EXAMPLE, strict=False).model_dump_json(by_alias=True).encode()
    analysis_id = await gateway.submit(body)
    assert (await gateway.get(analysis_id)).status is Status.QUEUED
    sweeping = asyncio.create_task(sweep_of(store, queue).run())
    await asyncio.sleep(0.3)
    queue.away = False
    async with asyncio.timeout(10):
        while not queue.sent:
            await asyncio.sleep(0.02)
    sweeping.cancel()
    assert queue.sent[0] == analysis_id
