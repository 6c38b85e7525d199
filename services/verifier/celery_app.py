"""The Celery side: one place for its settings, and the sending of tasks by name."""

import asyncio
import os
import socket
import time
from typing import Any

from celery import Celery

from prover.queues import ANALYZE, ANALYZE_TASK, CONTINUE, CONTINUE_TASK, DECIDE_TASK

_QUEUES = {ANALYZE_TASK: ANALYZE, DECIDE_TASK: ANALYZE, CONTINUE_TASK: CONTINUE}


def make_app(redis_url: str, *, visibility_timeout_s: int) -> Celery:
    """An app that keeps no results, speaks JSON only, and acknowledges a message once its task has ended."""
    app = Celery("verifier", broker=redis_url, set_as_current=False)
    app.conf.update(
        task_serializer="json",
        accept_content=["json"],
        task_ignore_result=True,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        # With late acknowledgement on Redis the prefetch count drifts up: a worker takes no more than it works on.
        worker_disable_prefetch=True,
        worker_prefetch_multiplier=1,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        # Tasks under way go on over a lost connection; what they write, they write once anyway.
        worker_cancel_long_running_tasks_on_connection_loss=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={
            "visibility_timeout": visibility_timeout_s,
            "unacked_restore_interval": min(10.0, visibility_timeout_s / 4),
            "unacked_restore_throttle": 1,
            "socket_keepalive": True,
        },
        task_publish_retry_policy={"max_retries": 10, "interval_start": 0.1, "interval_step": 0.3, "interval_max": 2.0},
    )
    return app


class CelerySend:
    """A `Send` into the queues. The message says when it was sent, so that waiting can be measured."""

    def __init__(self, app: Celery) -> None:
        self._app = app

    async def __call__(self, task: str, *arguments: object) -> None:
        """Returns once the broker has it."""
        await asyncio.to_thread(
            self._app.send_task,
            task,
            args=list(arguments),
            queue=_QUEUES[task],
            headers={"sent_at": time.time()},
        )


def work(app: Celery, queue: str, *, concurrency: int) -> int:
    """Works on a queue until SIGTERM or SIGINT; then ends what is under way. Answers the exit code.

    Threads, not processes: nothing forks, so clients made before stay good.
    """
    worker: Any = app.Worker(
        queues=[queue],
        pool="threads",
        concurrency=concurrency,
        hostname=f"{queue}-{os.getpid()}@{socket.gethostname()}",
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        quiet=True,
        loglevel="WARNING",
    )
    worker.start()
    return int(worker.exitcode or 0)
