"""The judge service's process. Ends on SIGTERM and SIGINT; calls in progress get 10 s to finish."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

from prometheus_client import CollectorRegistry, start_http_server

from prover.rpc.servers import Server
from prover.telemetry import log_as_json, start_tracing
from services.judge.config import JudgeSettings, LlmSettings
from services.judge.grpc_server import judge_service
from services.judge.judge import JUDGES, JudgeOptions, ProposeLimits, make
from services.judge.metrics import JudgeMetrics


def main() -> None:
    """Reads the settings, builds the objects, serves."""
    settings, llm = JudgeSettings(), LlmSettings()
    log_as_json("judge", level=settings.log_level)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    finish_tracing = start_tracing("judge")
    with ThreadPoolExecutor(max_workers=settings.threads, thread_name_prefix="judge") as executor:
        options = JudgeOptions(endpoint=llm.endpoint, executor=executor)
        asyncio.run(_serve(settings, options, llm.limits(timeout_s=settings.timeout_s)))
    finish_tracing()


async def _serve(settings: JudgeSettings, options: JudgeOptions, limits: ProposeLimits) -> None:
    # `oracle` needs the truth, which a service never has; `llm` needs a model.
    names = [name for name in JUDGES if name != "oracle" and (name != "llm" or options.endpoint is not None)]
    judges = {name: make(name, options) for name in names}
    registry = CollectorRegistry()
    metrics = JudgeMetrics(registry)
    if settings.metrics_port:
        start_http_server(settings.metrics_port, registry=registry)
    service = judge_service(judges, judged=metrics.judged, limits=limits, executor=options.executor)
    server = Server([service], host=settings.host, port=settings.port, tls=settings.tls)
    logging.getLogger("judge").info("listening on %s:%d, judges: %s", settings.host, server.port, ", ".join(judges))
    await server.run_until_signal()


if __name__ == "__main__":
    main()
