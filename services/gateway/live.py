"""Requests that stay open: they are few enough, they end when the analysis does, and they end when the server must."""

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from typing import TypeVar

from prover.lifecycle import END_STATES
from prover.store import AnalysisStore, Event, StoreError, follow
from services.gateway.problems import Problem

_T = TypeVar("_T")
_SILENCE_S = 15.0
"""After so long without an event a comment is sent, so that nothing between the two ends closes the connection."""


class OpenRequests:
    """Counts requests that wait, each of which holds a connection to Redis; `stopping` ends them all."""

    def __init__(self, *, most: int = 512) -> None:
        self.stopping = asyncio.Event()
        self._most = most
        self._now = 0

    def admit(self) -> None:
        """Problem 503 where too many are open."""
        if self._now >= self._most:
            detail = f"{self._now} requests wait for events; expected fewer than {self._most}. Ask without waiting"
            raise Problem(503, "too-many-open", "Too many requests are open", detail=detail, retry_after_s=5)

    async def run(self, waiting: Coroutine[None, None, _T]) -> _T | None:
        """Its result; None where the server is stopping."""
        stop = asyncio.ensure_future(self.stopping.wait())
        work = asyncio.ensure_future(waiting)
        self._now += 1
        try:
            await asyncio.wait({stop, work}, return_when=asyncio.FIRST_COMPLETED)
            return work.result() if work.done() else None
        finally:
            self._now -= 1
            stop.cancel()
            work.cancel()

    async def stream(self, store: AnalysisStore, analysis_id: str, *, after: str) -> AsyncIterator[bytes]:
        """Server-sent events later than `after`, until the analysis has ended or the server stops."""
        source = follow(store, analysis_id, after=after)
        stop = asyncio.ensure_future(self.stopping.wait())
        coming = asyncio.ensure_future(_next(source))
        self._now += 1
        try:
            yield b"retry: 1000\n\n"
            while not stop.done():
                await asyncio.wait({coming, stop}, timeout=_SILENCE_S, return_when=asyncio.FIRST_COMPLETED)
                if not coming.done():
                    yield b": nothing new\n\n"
                    continue
                event = coming.result()
                if event is None:
                    return
                yield _encode(event)
                coming = asyncio.ensure_future(_next(source))
        finally:
            self._now -= 1
            stop.cancel()
            coming.cancel()


async def ended_and_read(store: AnalysisStore, analysis_id: str, *, after: str) -> bool:
    """Nothing will follow `after`: the analysis has ended and its last event was not later."""
    analysis = await store.get(analysis_id)
    return analysis is None or (analysis.status in END_STATES and not await store.events(analysis_id, after=after))


async def _next(source: AsyncIterator[Event]) -> Event | None:
    """The next event; None at the end, and where Redis is gone: the client comes back to where it was."""
    try:
        return await anext(source, None)
    except StoreError:
        return None


def _encode(event: Event) -> bytes:
    data = json.dumps(event.data, separators=(",", ":"))
    return f"id: {event.id}\nevent: {event.event}\ndata: {data}\n\n".encode()
