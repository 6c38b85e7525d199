"""The Celery skin: decode, call, and what to do about a failure.

Consumes: queue `analyze` (coordinator: prover.analyze, prover.decide) or queue `continue` (worker: prover.continue).
Produces: prover.continue and prover.decide. Unblocks: whoever waits for an analysis, through its event stream.
If it dies: the message was not acknowledged and comes back after the visibility timeout; the gateway's sweep is sooner.

A task that fails is tried again with growing pauses, a bounded number of times; then its analysis fails with
the reason. While Redis is away it waits in place: there is nowhere to put the message.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any

from celery import Celery, Task
from kombu.exceptions import OperationalError

from prover.protocol import NewerAnalysis
from prover.queues import ANALYZE_TASK, CONTINUE_TASK, DECIDE_TASK
from prover.store import StoreError
from prover.telemetry import about
from services.verifier.continuations import Batch, Continuations
from services.verifier.endings import Endings
from services.verifier.loop import LoopThread
from services.verifier.metrics import Metrics
from services.verifier.verifier import Coordinator

_log = logging.getLogger("verifier")
_OUTAGE_PAUSES_S = (0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 5.0, 5.0, 5.0, 5.0)
_LONGEST_PAUSE_S = 30

Work = Callable[[], Coroutine[Any, Any, None]]


class Runner:
    """Runs the work of tasks on the process' event loop."""

    def __init__(self, loop: LoopThread, endings: Endings, metrics: Metrics, *, retries: int, limit_s: float) -> None:
        """`retries`: how often a failed task is tried again. `limit_s`: an attempt that lasts longer has failed."""
        self._loop = loop
        self._endings = endings
        self._metrics = metrics
        self._retries = retries
        self._limit_s = limit_s

    def run(self, task: Task, work: Work, *, analysis_id: str) -> None:
        """One attempt of a task. Every failure ends here: as a retry, or as the end of the analysis."""
        with about(analysis_id):
            self._attempt(task, work, analysis_id)

    def _attempt(self, task: Task, work: Work, analysis_id: str) -> None:
        name = str(task.name)
        self._observe_wait(task, name)
        try:
            with self._metrics.running.labels(name).track_inprogress():
                self._outlast_outages(work)
        except NewerAnalysis as error:
            self._leave(task, error)
            return
        except Exception as error:
            # Whatever it is, ours or theirs: the queue goes on and the analysis ends with a reason.
            attempt = int(task.request.retries or 0)
            _log.warning("task failed", exc_info=True, extra={"task": name, "attempt": attempt})
            if attempt >= self._retries:
                self._metrics.tasks.labels(name, "failed").inc()
                reason = f"{name}: {type(error).__name__}: {error}; tried {attempt + 1} times"
                self._outlast_outages(lambda: self._endings.failed(analysis_id, reason))
                return
            self._metrics.tasks.labels(name, "retried").inc()
            headers = {"sent_at": time.time()}
            raise task.retry(
                exc=error, countdown=min(2**attempt, _LONGEST_PAUSE_S), max_retries=None, headers=headers
            ) from error
        self._metrics.tasks.labels(name, "done").inc()

    def _leave(self, task: Task, error: NewerAnalysis) -> None:
        """Hands the message on, to a newer process. After too many old ones it is dropped; the sweep sends again."""
        attempt = int(task.request.retries or 0)
        _log.warning("left to a newer process: %s", error, extra={"task": str(task.name), "attempt": attempt})
        self._metrics.tasks.labels(str(task.name), "left").inc()
        if attempt < self._retries:
            raise task.retry(exc=error, countdown=min(2**attempt, _LONGEST_PAUSE_S), max_retries=None) from error

    def _outlast_outages(self, work: Work) -> None:
        for pause_s in _OUTAGE_PAUSES_S:
            try:
                self._loop.run(asyncio.wait_for(work(), self._limit_s))
                return
            except (StoreError, OperationalError) as error:
                _log.warning("Redis does not answer, trying again in %s s: %s", pause_s, error)
                time.sleep(pause_s)
        self._loop.run(asyncio.wait_for(work(), self._limit_s))

    def _observe_wait(self, task: Task, name: str) -> None:
        sent_at: object = (task.request.headers or {}).get("sent_at")
        if isinstance(sent_at, (int, float)):
            self._metrics.waits.labels(name).observe(max(0.0, time.time() - sent_at))


def add_coordinator_tasks(app: Celery, runner: Runner, coordinator: Coordinator) -> None:
    """Declares what a coordinator does."""

    def analyze(task: Task, analysis_id: str) -> None:
        runner.run(task, lambda: coordinator.analyze(analysis_id), analysis_id=analysis_id)

    def decide(task: Task, analysis_id: str, number: int) -> None:
        again = bool((task.request.delivery_info or {}).get("redelivered")) or bool(task.request.retries)
        runner.run(task, lambda: coordinator.decide(analysis_id, number, again=again), analysis_id=analysis_id)

    app.task(name=ANALYZE_TASK, bind=True, shared=False)(analyze)
    app.task(name=DECIDE_TASK, bind=True, shared=False)(decide)


def add_worker_tasks(app: Celery, runner: Runner, continuations: Continuations) -> None:
    """Declares what a continuation worker does."""

    def play(task: Task, analysis_id: str, number: int, side: str, first_sample: int, samples: int) -> None:
        try:
            batch = Batch(analysis_id=analysis_id, number=number, side=side, first_sample=first_sample, samples=samples)
        except (ValueError, TypeError):
            _log.exception("message dropped: it cannot be read", extra={"analysis": analysis_id})
            return
        runner.run(task, lambda: continuations.play_batch(batch), analysis_id=analysis_id)

    app.task(name=CONTINUE_TASK, bind=True, shared=False)(play)
