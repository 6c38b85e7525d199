"""Saying that somebody is at work, while there is nothing to be seen yet."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from prover.store import AnalysisStore, StoreError

_EVERY_S = 5.0
_log = logging.getLogger("verifier")


@asynccontextmanager
async def at_work(store: AnalysisStore, analysis_id: str) -> AsyncGenerator[None]:
    """Keeps an analysis from being taken for abandoned while the block runs."""
    over = asyncio.get_running_loop().create_future()
    pulse = asyncio.create_task(_beat(store, analysis_id, over))
    try:
        yield
    finally:
        # Told, not cancelled: under Python 3.11 a cancellation that meets the answer of a Redis call inside
        # asyncio.wait_for is lost (CPython issue 86296), and an endless task goes on.
        over.set_result(None)
        await asyncio.gather(pulse, return_exceptions=True)


async def _beat(store: AnalysisStore, analysis_id: str, over: asyncio.Future[None]) -> None:
    while not (await asyncio.wait({over}, timeout=_EVERY_S))[0]:
        try:
            await store.keep_alive(analysis_id)
        except StoreError as error:
            _log.warning("keep alive: %s", error, extra={"analysis": analysis_id})
