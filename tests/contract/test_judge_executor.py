"""Long work of the judge service is done beside its event loop: others are answered meanwhile, and in time."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from prover.rpc.channels import open_channel
from prover.rpc.clients import JudgeClient
from prover.rpc.servers import Server
from services.judge.grpc_server import judge_service
from services.judge.judge import JudgeOptions, make
from services.judge.llm import Endpoint
from services.judge.question import ProposeLimits
from tests.contract.judge_asks import good
from tests.contract.judge_server import Answer, Request, ScriptedServer
from tests.unit.judge.builders import bell


@dataclass(frozen=True, kw_only=True)
class Busy:
    """Two threads for long work, both held until `free` is set."""

    executor: ThreadPoolExecutor
    free: threading.Event


@pytest.fixture
def busy() -> Iterator[Busy]:
    with ThreadPoolExecutor(max_workers=2) as executor:
        free = threading.Event()
        for _ in range(2):
            executor.submit(free.wait)
        yield Busy(executor=executor, free=free)
        free.set()


async def test_health_is_answered_while_groups_wait_for_a_thread(busy: Busy) -> None:
    judges = {"contrast": make("contrast", JudgeOptions(executor=busy.executor))}
    server = Server([judge_service(judges, judged=lambda _: None, executor=busy.executor)])
    await server.start()
    channel = open_channel(f"127.0.0.1:{server.port}")
    client = JudgeClient(channel)
    asked = [asyncio.create_task(client.propose(bell(), judge="contrast", timeout_s=60)) for _ in range(4)]
    health = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=30)
    assert health.status == health_pb2.HealthCheckResponse.SERVING
    assert await client.judges(timeout_s=30) == ("contrast",)
    assert not any(task.done() for task in asked)
    busy.free.set()
    assert all(judgement.proposals for judgement in await asyncio.gather(*asked))
    await channel.close()
    await server.stop(grace_s=0.1)


@pytest.mark.parametrize(("name", "says"), [("contrast", "not compared"), ("llm", "not read")])
async def test_a_group_that_finds_no_thread_in_time_has_no_proposal(busy: Busy, name: str, says: str) -> None:
    options = JudgeOptions(endpoint=Endpoint(url="http://127.0.0.1:9/v1", model="m"), executor=busy.executor)
    judgement = await make(name, options).propose(bell(), ProposeLimits(timeout_s=0.2))
    assert judgement.proposals == ()
    assert judgement.no_proposal_reason == f"limits: the group was {says} within 0.2 s"


async def test_a_model_is_waited_for_without_a_thread() -> None:
    """More judgements than threads wait for a model that answers none of them before all have asked."""
    together = threading.Barrier(3, timeout=30)

    def script(_: int, request: Request) -> Answer:
        together.wait()
        return good(request)

    with ThreadPoolExecutor(max_workers=1) as executor, ScriptedServer(script) as server:
        judge = make("llm", JudgeOptions(endpoint=Endpoint(url=server.url, model="m"), executor=executor))
        found = await asyncio.gather(*(judge.propose(bell(), ProposeLimits(timeout_s=40)) for _ in range(3)))
    assert all(judgement.proposals for judgement in found)
