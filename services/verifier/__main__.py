"""The verifier's processes: `python -m services.verifier coordinator` and `python -m services.verifier worker`.

Both end on SIGTERM and SIGINT, when the tasks under way have ended.
"""

import argparse
import logging

from celery import Celery
from prometheus_client import start_http_server

from prover.environments import make
from prover.policies.addresses import parse_addresses
from prover.policies.client import PolicyClient
from prover.queues import ANALYZE, CONTINUE
from prover.rpc.channels import open_channel
from prover.rpc.clients import JudgeClient
from prover.store import AnalysisStore, open_records, open_store
from prover.telemetry import log_as_json, start_tracing
from services.verifier.audits import Audits
from services.verifier.celery_app import CelerySend, make_app, work
from services.verifier.config import VerifierSettings
from services.verifier.continuations import Continuations
from services.verifier.endings import Endings
from services.verifier.judge import RemoteJudge
from services.verifier.loop import LoopThread
from services.verifier.metrics import Metrics
from services.verifier.player import World
from services.verifier.tasks import Runner, add_coordinator_tasks, add_worker_tasks
from services.verifier.verifier import Coordinator

_ROLES = {"coordinator": (ANALYZE, 16), "worker": (CONTINUE, 16)}


def main() -> int:
    """Reads the settings, builds the objects, works."""
    parser = argparse.ArgumentParser(prog="python -m services.verifier")
    parser.add_argument("role", choices=sorted(_ROLES))
    role = str(parser.parse_args().role)
    settings = VerifierSettings()  # pyright: ignore[reportCallIssue]  # blob_url comes from the environment
    log_as_json("verifier", level=settings.log_level)
    logging.getLogger("celery.apps.worker").setLevel(settings.log_level)
    finish_tracing = start_tracing(role)
    queue, concurrency = _ROLES[role]
    metrics = Metrics()
    if settings.metrics_port:
        start_http_server(settings.metrics_port, registry=metrics.registry)
    loop = LoopThread()
    app = make_app(settings.redis_url, visibility_timeout_s=settings.visibility_timeout_s)
    store = open_store(settings.redis_url, settings.blob_url)
    endings = Endings(store, metrics)
    runner = Runner(loop, endings, metrics, retries=settings.retries, limit_s=settings.task_limit_s)
    if role == "coordinator":
        add_coordinator_tasks(app, runner, loop.run(_coordinator(settings, app, store, endings, metrics)))
    else:
        add_worker_tasks(app, runner, loop.run(_continuations(settings, app, store, endings, metrics)))
    logging.getLogger("verifier").info("working on queue %s", queue)
    try:
        return work(app, queue, concurrency=settings.concurrency or concurrency)
    finally:
        loop.stop()
        finish_tracing()


async def _coordinator(
    settings: VerifierSettings, app: Celery, store: AnalysisStore, endings: Endings, metrics: Metrics
) -> Coordinator:
    judge = RemoteJudge(JudgeClient(open_channel(settings.judge_address)), timeout_s=settings.judge_timeout_s)
    audits = Audits(open_records(settings.redis_url))
    return Coordinator(store, judge, CelerySend(app), endings, audits=audits, batch_samples=settings.batch_samples)


async def _continuations(
    settings: VerifierSettings, app: Celery, store: AnalysisStore, endings: Endings, metrics: Metrics
) -> Continuations:
    key = settings.policy_api_key.get_secret_value()
    # A task that is cut off says less than an engine's own refusal.
    patience_s = min(settings.engine_patience_s, settings.task_limit_s / 2)
    policies = {
        name: PolicyClient(url, max_in_flight=settings.max_in_flight, patience_s=patience_s, api_key=key)
        for name, url in parse_addresses(settings.policy_urls).items()
    }
    world = World(policies=policies, make_environment=make)
    return Continuations(store, world, CelerySend(app), endings, metrics)


if __name__ == "__main__":
    raise SystemExit(main())
