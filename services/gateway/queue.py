"""The queue, seen from the gateway: sends by name, knows no task."""

import asyncio

from celery import Celery
from kombu.exceptions import OperationalError

from prover.queues import ANALYZE, ANALYZE_TASK, DECIDE_TASK
from services.gateway.gateway import QueueDown

_LIMIT_S = 5.0


class CeleryQueue:
    """Sends to a broker. One short retry; the sweep does the rest."""

    def __init__(self, broker_url: str) -> None:
        self._app = Celery("gateway", broker=broker_url, set_as_current=False)
        self._app.conf.update(
            task_serializer="json",
            task_ignore_result=True,
            task_publish_retry_policy={"max_retries": 1, "interval_start": 0.2},
            broker_connection_timeout=2.0,
            broker_transport_options={"socket_timeout": _LIMIT_S, "socket_connect_timeout": 2.0},
        )

    async def analyze(self, analysis_id: str) -> None:
        """Puts an analysis on the queue `analyze`."""
        await self._within_limit(ANALYZE_TASK, analysis_id)

    async def decide(self, analysis_id: str, number: int) -> None:
        """Says that all outcomes of round `number` are in."""
        await self._within_limit(DECIDE_TASK, analysis_id, number)

    async def _within_limit(self, task: str, *arguments: str | int) -> None:
        try:
            await asyncio.wait_for(asyncio.to_thread(self._send, task, *arguments), 2 * _LIMIT_S)
        except (OperationalError, OSError, TimeoutError) as error:
            raise QueueDown(str(error)) from error

    def close(self) -> None:
        """Lets the connections go."""
        self._app.close()

    def _send(self, task: str, *arguments: str | int) -> None:
        self._app.send_task(task, args=list(arguments), queue=ANALYZE)
