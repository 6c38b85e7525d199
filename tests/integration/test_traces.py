"""One trace from the request at the gateway through the queue to the judge and the workers, over real processes."""

import json
from pathlib import Path

import pytest
from chain_world import mixed_group
from trace_receiver import receive_traces
from verifier_processes import Processes, until

from prover.client import AsyncProverClient
from prover.local.stack import free_port
from tests.integration.test_engine_process import process
from tests.unit.engine.builders import write_weights

PARTS = {
    ("prover-gateway", "POST /v1/analyses"),
    ("prover-gateway", "apply_async/prover.analyze"),
    ("prover-coordinator", "run/prover.analyze"),
    ("prover-coordinator", "/prover.rpc.v1.JudgeService/Propose"),
    ("prover-judge", "/prover.rpc.v1.JudgeService/Propose"),
    ("prover-coordinator", "apply_async/prover.continue"),
    ("prover-worker", "run/prover.continue"),
    ("prover-worker", "apply_async/prover.decide"),
    ("prover-coordinator", "run/prover.decide"),
}
OPTIONS = {"mode": "fixed", "samples": 4, "max_turns": 20, "policy": "chain", "max_tokens": 32, "judge": "contrast"}


@pytest.mark.slow
async def test_a_request_can_be_followed_to_its_last_continuation(redis_url: str, tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.sdk", reason="OpenTelemetry is not installed")
    judge_port, gateway_port = free_port(), free_port()
    with receive_traces() as receiver:
        processes = Processes(redis_url=redis_url, folder=tmp_path, judge_port=judge_port, engine_port=free_port())
        settings = {
            **receiver.environment(),
            "PROVER_JUDGE_PORT": str(judge_port),
            "PROVER_GATEWAY_PORT": str(gateway_port),
        }
        try:
            processes.engine()
            processes.start_module("judge", ["services.judge"], settings)
            processes.start_module("coordinator", ["services.verifier", "coordinator"], settings)
            processes.start_module("worker", ["services.verifier", "worker"], settings)
            processes.start_module("gateway", ["services.gateway"], settings)
            async with AsyncProverClient(f"http://127.0.0.1:{gateway_port}", retries=60) as client:
                analysis_id = await client.submit(await mixed_group(), OPTIONS)
                assert (await client.wait(analysis_id, timeout_s=60))["status"] == "done"

            async def all_have_come() -> bool:
                spans = receiver.spans()
                traces = {
                    span.trace
                    for span in spans
                    if (span.service, span.name) == ("prover-worker", "run/prover.continue")
                }
                return any(
                    {(span.service, span.name) for span in spans if span.trace == trace} >= PARTS for trace in traces
                )

            await until(all_have_come, timeout_s=20)
            lines = [
                json.loads(line)
                for name in ("coordinator", "judge", "worker")
                for line in processes.log(name).splitlines()
                if line.startswith("{")
            ]
        finally:
            processes.close()
            await processes.store.aclose()
    told = [line for line in lines if line.get("analysis") == analysis_id]
    assert {line["service"] for line in told} == {"verifier", "judge"}
    assert len({line["trace"] for line in told}) == 1, "logs and traces can be joined"


@pytest.mark.slow
async def test_the_policy_engine_is_traced_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("opentelemetry.sdk", reason="OpenTelemetry is not installed")
    with receive_traces() as receiver:
        for name, value in receiver.environment().items():
            monkeypatch.setenv(name, value)
        with process(write_weights(tmp_path / "weights")):

            async def its_health_has_come() -> bool:
                return ("prover-engine", "GET /health") in {(span.service, span.name) for span in receiver.spans()}

            await until(its_health_has_come, timeout_s=20)
