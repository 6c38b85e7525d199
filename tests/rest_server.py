"""A gateway for tests: the real application on a real port with a real Redis, and stand-ins for what is beyond it."""

import asyncio
import base64
import copy
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from redis.asyncio import Redis

from prover.credit.advantages import assign_credit
from prover.lifecycle import Status
from prover.policies import PolicyError, PolicyInfo
from prover.queues import ANALYZE
from prover.store import AnalysisStore, JudgeRecords, open_records, open_store
from prover.trajectory import (
    BoundaryCount,
    JudgeCost,
    Judgement,
    Outcome,
    Proposal,
    Segment,
    Task,
    Verification,
)
from services.gateway.examples import SUBMISSION_EXAMPLE
from services.gateway.gateway import Doors, Gateway
from services.gateway.http_server import create_app
from services.gateway.judge_records import RecordShelf
from services.gateway.live import OpenRequests
from services.gateway.metrics import Metrics
from services.gateway.parts import Parts
from services.gateway.pull import Pull
from services.gateway.queue import CeleryQueue
from services.gateway.readiness import JudgeNames, Readiness
from services.gateway.sweep import Sweep


@dataclass
class FakeEngine:
    """A policy engine that serves a version, or is away."""

    version: str = "v3"
    away: bool = False

    async def info(self) -> PolicyInfo:
        if self.away:
            raise PolicyError("GET http://engine/v1/models: connection refused")
        return PolicyInfo(model="household", version=self.version, max_context=1024)


class FakeJudge:
    """Knows two names."""

    async def judges(self, *, timeout_s: float) -> tuple[str, ...]:
        return ("contrast", "llm")


def refuse_unknown(task: Task) -> None:
    """A check of tasks that knows those whose id begins with "generated/"."""
    if not task.task_id.startswith("generated/"):
        raise ValueError(f"task.task_id: was {task.task_id!r}; expected generated/TYPE/SEED")


@dataclass
class RunningGateway:
    """What a test reaches."""

    url: str
    store: AnalysisStore
    records: JudgeRecords
    redis: Redis
    parts: Parts
    queue: CeleryQueue
    engine: FakeEngine = field(default_factory=FakeEngine)

    async def next_message(self, timeout_s: float = 5.0) -> str | None:
        """The analysis id of the next message on the queue, as a worker would take it."""
        taken = await self.redis.blpop([ANALYZE], timeout=timeout_s)
        if taken is None:
            return None
        message = json.loads(taken[1])
        assert message["headers"]["task"] == "prover.analyze"
        return str(json.loads(base64.b64decode(message["body"]))[0][0])


@asynccontextmanager
async def running_gateway(
    redis_url: str,
    folder: Path,
    *,
    max_active: int = 100,
    max_body_bytes: int = 1_000_000,
    idle_s: float = 0.2,
    check_task: Callable[[Task], None] = refuse_unknown,
) -> AsyncIterator[RunningGateway]:
    """Serves until the block ends."""
    store, records = open_store(redis_url, folder.as_uri()), open_records(redis_url)
    redis = Redis.from_url(redis_url, decode_responses=True)
    queue, engine, judge = CeleryQueue(redis_url), FakeEngine(), FakeJudge()
    policies = {"embedded": engine}
    names = JudgeNames(judge)
    doors = Doors(policies=policies, judges=names, check_task=check_task, max_active=max_active)
    metrics, gateway = Metrics(), Gateway(store, queue, doors)
    parts = Parts(
        gateway=gateway,
        pull=Pull(gateway, queue),
        sweep=Sweep(store, queue, idle_s=idle_s, report=metrics.swept),
        records=RecordShelf(records, names),
        open_requests=OpenRequests(),
        metrics=metrics,
        ready=Readiness(store, judge, policies),
        max_body_bytes=max_body_bytes,
    )
    config = uvicorn.Config(create_app(parts), port=0, log_level="warning", timeout_graceful_shutdown=2)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield RunningGateway(
            url=f"http://127.0.0.1:{port}",
            store=store,
            records=records,
            redis=redis,
            parts=parts,
            queue=queue,
            engine=engine,
        )
    finally:
        parts.open_requests.stopping.set()
        server.should_exit = True
        await serving
        queue.close()
        await redis.aclose()
        await records.aclose()
        await store.aclose()


SEGMENT = Segment(trajectory_id="t0", first_turn=1, last_turn=1)


async def play_through(store: AnalysisStore, analysis_id: str, *, bonus: float = 0.5) -> None:
    """What the verifier does with an analysis: judge, continuations, credit."""
    proposal = Proposal(segment=SEGMENT, failure_mode="looks elsewhere", reason="takes the mug", judge="contrast")
    judgement = Judgement(judge="contrast", prompt_version="1", proposals=(proposal,), cost=JudgeCost(model_calls=2))
    await store.move(analysis_id, Status.PROPOSING)
    await store.move(analysis_id, Status.VERIFYING, judgement=judgement)
    for sample in range(2):
        won = Outcome(success=True, reward=1.0, tokens=10)
        lost = Outcome(success=sample == 1, reward=float(sample == 1), tokens=20)
        await store.record_outcome(analysis_id, side="before", sample=sample, outcome=lost)
        await store.record_outcome(analysis_id, side="after", sample=sample, outcome=won)
    verification = Verification(
        before=BoundaryCount(successes=1, samples=2, tokens=40, policy_versions=("v0",)),
        after=BoundaryCount(successes=2, samples=2, tokens=20),
        delta=0.5,
        interval=(-0.1, 0.9),
        probability_positive=0.9,
        bonus=bonus,
        stopped_because="budget",
    )
    credit = assign_credit(await store.group(analysis_id), bonuses={SEGMENT: bonus})
    await store.write_credit(analysis_id, credit)
    await store.move(analysis_id, Status.DONE, verifications=(verification,))


def submission(**group: Any) -> dict[str, Any]:
    """The documented example, with those fields of its group."""
    body: dict[str, Any] = copy.deepcopy(SUBMISSION_EXAMPLE)
    body["group"].update(group)
    return body


async def submitted(http: httpx.AsyncClient, body: Any = None) -> str:
    """Hands it in and answers the id."""
    answer = await http.post("/v1/analyses", json=body or submission())
    assert answer.status_code == 202, answer.text
    return answer.json()["id"]
