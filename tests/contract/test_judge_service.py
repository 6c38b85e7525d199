"""`JudgeService` over real gRPC: a server on a free port, the client that the verifier uses, and the process itself."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator

import pytest
from prometheus_client import CollectorRegistry

from prover.credit.eligibility import anchor
from prover.credit.segments import segment_fault
from prover.rpc.channels import open_channel
from prover.rpc.clients import JudgeClient, RpcError
from prover.rpc.servers import Server
from services.judge.config import LlmSettings
from services.judge.grpc_server import judge_service
from services.judge.judge import JudgeOptions, make
from services.judge.llm import Endpoint
from services.judge.metrics import JudgeMetrics
from tests.contract.judge_server import Answer, Request, ScriptedServer, act
from tests.unit.judge.builders import bell, group, trajectory


def slow(_: int, request: Request) -> Answer:
    chosen = act(request, "answer", failure_mode="f", trajectory_id="t1", first_turn=2, last_turn=2, reason="r")
    return Answer(message=chosen.message, delay_s=6.0)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
async def client(registry: CollectorRegistry) -> AsyncIterator[JudgeClient]:
    with ScriptedServer(slow) as model:
        options = JudgeOptions(endpoint=Endpoint(url=model.url, model="m"))
        judges = {name: make(name, options) for name in ("contrast", "random", "llm")}
        server = Server([judge_service(judges, judged=JudgeMetrics(registry).judged)])
        await server.start()
        channel = open_channel(f"127.0.0.1:{server.port}")
        yield JudgeClient(channel)
        await channel.close()
        await server.stop(grace_s=0.1)


@pytest.mark.parametrize("judge", ["contrast", "random"])
async def test_a_judge_answers_over_the_wire(client: JudgeClient, judge: str, registry: CollectorRegistry) -> None:
    judgement = await client.propose(bell(), judge=judge, max_proposals=2, timeout_s=20)
    assert judgement.judge == judge
    assert 1 <= len(judgement.proposals) <= 2
    assert all(segment_fault(one.segment, anchor(bell())) is None for one in judgement.proposals)
    assert registry.get_sample_value("prover_judge_proposals_total", {"judge": judge}) == len(judgement.proposals)
    assert registry.get_sample_value("prover_judge_seconds_count", {"judge": judge}) == 1


async def test_the_service_names_its_judges(client: JudgeClient) -> None:
    assert await client.judges(timeout_s=20) == ("contrast", "llm", "random")


async def test_a_group_without_a_proposal_comes_back_with_the_reason(
    client: JudgeClient, registry: CollectorRegistry
) -> None:
    short = group(trajectory("a", ["x"], success=True), trajectory("b", ["y"]))
    judgement = await client.propose(short, judge="contrast", timeout_s=20)
    assert "no valid segment" in judgement.no_proposal_reason
    assert registry.get_sample_value("prover_judge_no_proposal_total", {"judge": "contrast"}) == 1


async def test_an_unknown_judge_and_a_group_of_failures_are_the_callers_mistakes(client: JudgeClient) -> None:
    with pytest.raises(RpcError, match="judge: was 'oracle'; expected one of contrast, llm, random") as unknown:
        await client.propose(bell(), judge="oracle", timeout_s=20)
    with pytest.raises(RpcError, match="0 of 1 succeeded") as hopeless:
        await client.propose(group(trajectory("a", ["x", "y"])), judge="contrast", timeout_s=20)
    assert unknown.value.invalid
    assert hopeless.value.invalid


async def test_a_slow_model_is_given_up_before_the_callers_deadline(client: JudgeClient) -> None:
    judgement = await client.propose(bell(), judge="llm", timeout_s=3.0)
    assert judgement.no_proposal_reason.startswith("limits: no valid answer within")


def test_prices_and_key_come_from_the_environment_and_the_key_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"URL": "http://h/v1", "MODEL": "m", "API_KEY": "s3cret", "INPUT_USD": "1"}.items():
        monkeypatch.setenv(f"PROVER_JUDGE_LLM_{name}", value)
    endpoint = LlmSettings().endpoint
    assert endpoint is not None
    assert (endpoint.api_key, endpoint.prices) == ("s3cret", None)
    assert "s3cret" not in repr(endpoint) + repr(LlmSettings())


def test_without_an_address_there_is_no_model() -> None:
    assert LlmSettings().endpoint is None


async def test_the_process_serves_and_ends_on_sigterm() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "services.judge",
        env={**os.environ, "PROVER_JUDGE_PORT": "0"},
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    said = (await process.stderr.readline()).decode()
    found = re.search(r"listening on 127\.0\.0\.1:(\d+), judges: contrast, random", said)
    assert found is not None, said
    channel = open_channel(f"127.0.0.1:{found[1]}")
    assert await JudgeClient(channel).judges(timeout_s=20) == ("contrast", "random")
    await channel.close()
    process.send_signal(signal.SIGTERM)
    assert await process.wait() == 0
