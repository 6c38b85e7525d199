"""The verifier's parts on a real Redis, in this process, with the messages between them in a test's hands."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from chain_world import OPTIONS, ChainPolicy, FixedJudge, Outbox

from prover.analysis import Analysis, Options
from prover.environments import Environment, make
from prover.queues import CONTINUE_TASK, DECIDE_TASK
from prover.store import AnalysisStore, JudgeRecords, open_records, open_store
from prover.trajectory import Group
from services.verifier.audits import Audits
from services.verifier.continuations import Batch, Continuations
from services.verifier.endings import Endings
from services.verifier.metrics import Metrics
from services.verifier.player import World
from services.verifier.verifier import Coordinator


@dataclass
class House:
    """Takes groups in, delivers messages."""

    store: AnalysisStore
    policy: ChainPolicy
    judge: FixedJudge
    outbox: Outbox
    coordinator: Coordinator
    continuations: Continuations
    records: JudgeRecords

    async def begin(self, group: Group, options: Options = OPTIONS, analysis_id: str = "a1") -> str:
        await self.store.create(analysis_id, group, options)
        await self.coordinator.analyze(analysis_id)
        return analysis_id

    async def get(self, analysis_id: str = "a1") -> Analysis:
        analysis = await self.store.get(analysis_id)
        assert analysis is not None
        return analysis

    async def deliver(self, task: str, arguments: tuple[object, ...]) -> None:
        if task == CONTINUE_TASK:
            await self.continuations.play_batch(batch(arguments))
        elif task == DECIDE_TASK:
            await self.coordinator.decide(str(arguments[0]), int(str(arguments[1])))
        else:
            await self.coordinator.analyze(str(arguments[0]))

    async def run(self) -> None:
        """Delivers messages until none are left."""
        while self.outbox.sent:
            await self.deliver(*self.outbox.sent.pop(0))


def batch(arguments: tuple[object, ...]) -> Batch:
    analysis_id, number, side, first, samples = arguments
    return Batch(
        analysis_id=str(analysis_id),
        number=int(str(number)),
        side=str(side),
        first_sample=int(str(first)),
        samples=int(str(samples)),
    )


@asynccontextmanager
async def open_house(
    redis_url: str, folder: Path, *, make_environment: Callable[[str], Environment] = make
) -> AsyncIterator[House]:
    """A house of its own; the Redis is everybody's."""
    store, records = open_store(redis_url, f"file://{folder}"), open_records(redis_url)
    policy, judge, outbox, metrics = ChainPolicy(), FixedJudge(), Outbox(), Metrics()
    endings = Endings(store, metrics)
    world = World(policies={"chain": policy}, make_environment=make_environment)
    yield House(
        store=store,
        policy=policy,
        judge=judge,
        outbox=outbox,
        coordinator=Coordinator(store, judge, outbox, endings, audits=Audits(records), batch_samples=2),
        records=records,
        continuations=Continuations(store, world, outbox, endings, metrics, check_every_s=0.02),
    )
