"""One event loop a process, in a thread of its own, kept for the process' life.

gRPC channels and the asyncio clients of Redis and HTTP belong to the loop that made them. Celery's pool threads have
none; they hand their coroutines to this one and wait.
"""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


class LoopThread:
    """Runs coroutines for other threads."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="event-loop", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """The coroutine's result, or what it raised. Never call it from the loop itself."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def stop(self) -> None:
        """Ends the loop; what still runs on it is cut off."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
