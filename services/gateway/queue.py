"""The queue, seen from the gateway: sends by name, knows no task."""

import asyncio

from celery import Celery
from kombu.exceptions import OperationalError

from prover.queues import ANALYZE, ANALYZE_TASK
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
        try:
            await asyncio.wait_for(asyncio.to_thread(self._send, analysis_id), 2 * _LIMIT_S)
        except (OperationalError, OSError, TimeoutError) as error:
            raise QueueDown(str(error)) from error

    def close(self) -> None:
        """Lets the connections go."""
        self._app.close()

    def _send(self, analysis_id: str) -> None:
        self._app.send_task(ANALYZE_TASK, args=[analysis_id], queue=ANALYZE)
