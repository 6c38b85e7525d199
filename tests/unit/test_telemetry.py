"""Logs that name their analysis, and one trace over a gRPC call, exported to a real HTTP server."""

import json
import logging
import os
import subprocess
import sys

import pytest
from trace_receiver import receive_traces

from prover.telemetry import JsonLines, about, start_tracing

_CALL = """
import asyncio
from prover.telemetry import start_tracing

async def call():
    import grpc
    from grpc_health.v1 import health_pb2, health_pb2_grpc
    from prover.rpc.channels import open_channel
    from prover.rpc.servers import Server
    server = Server([])
    await server.start()
    async with open_channel(f"127.0.0.1:{server.port}") as channel:
        await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=10)
    await server.stop(0)

finish = start_tracing("judge")
asyncio.run(call())
finish()
"""


def _line(record: logging.LogRecord) -> dict[str, object]:
    return json.loads(JsonLines("verifier").format(record))


def _record(**extra: object) -> logging.LogRecord:
    return logging.getLogger("verifier").makeRecord(
        "verifier", logging.INFO, "file.py", 1, "played %d", (3,), None, extra=extra
    )


def test_a_line_says_who_when_and_what() -> None:
    line = _line(_record(sample=2))
    assert (line["service"], line["level"], line["message"], line["sample"]) == ("verifier", "INFO", "played 3", 2)
    assert "analysis" not in line


def test_every_line_within_an_analysis_names_it() -> None:
    with about("a1"):
        assert _line(_record())["analysis"] == "a1"
        with about("a2"):
            assert _line(_record())["analysis"] == "a2"
        assert _line(_record())["analysis"] == "a1"
    assert "analysis" not in _line(_record())


def test_what_the_caller_says_itself_wins() -> None:
    with about("a1"):
        assert _line(_record(analysis="a9"))["analysis"] == "a9"


def test_without_an_address_nothing_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", raising=False)
    start_tracing("judge")()
    if "opentelemetry.trace" in sys.modules:
        from opentelemetry import trace

        assert not trace.get_current_span().get_span_context().is_valid


def test_both_ends_of_a_call_are_in_one_trace() -> None:
    pytest.importorskip("opentelemetry.sdk", reason="OpenTelemetry is not installed")
    pytest.importorskip("opentelemetry.instrumentation.grpc", reason="its gRPC instrumentation is not installed")
    with receive_traces() as receiver:
        environment = {**os.environ, **receiver.environment()}
        ran = subprocess.run(
            [sys.executable, "-c", _CALL], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert ran.returncode == 0, ran.stderr
    spans = receiver.spans()
    names = {span.service for span in spans}
    assert names == {"prover-judge"}
    assert len(spans) == 2 and len({span.trace for span in spans}) == 1
    client, server = sorted(spans, key=lambda span: span.parent)
    assert server.parent == client.id
