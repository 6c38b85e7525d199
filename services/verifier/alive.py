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
    pulse = asyncio.create_task(_beat(store, analysis_id))
    try:
        yield
    finally:
        pulse.cancel()
        await asyncio.gather(pulse, return_exceptions=True)


async def _beat(store: AnalysisStore, analysis_id: str) -> None:
    while True:
        await asyncio.sleep(_EVERY_S)
        try:
            await store.keep_alive(analysis_id)
        except StoreError as error:
            _log.warning("keep alive: %s", error, extra={"analysis": analysis_id})
