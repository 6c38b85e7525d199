"""Saying that somebody is at work."""

import asyncio
from typing import cast

import pytest

from prover.store import AnalysisStore
from services.verifier import alive


class Answering:
    """A store whose first call is answered when the test says so; it waits as redis-py does."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.answer = asyncio.get_running_loop().create_future()

    async def keep_alive(self, analysis_id: str) -> bool:
        self.asked.set()
        return bool(await asyncio.wait_for(self.answer, 60.0))


@pytest.mark.timeout(30)
async def test_work_that_ends_as_its_beat_is_answered_is_not_held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the same turn of the event loop: there a cancellation would be lost under Python 3.11."""
    monkeypatch.setattr(alive, "_EVERY_S", 0.001)
    store = Answering()
    async with asyncio.timeout(5.0), alive.at_work(cast(AnalysisStore, store), "a"):
        await store.asked.wait()
        store.answer.set_result(True)


async def test_work_that_fails_stops_its_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alive, "_EVERY_S", 0.001)
    store = Answering()
    store.answer.set_result(True)
    with pytest.raises(KeyError):
        async with alive.at_work(cast(AnalysisStore, store), "a"):
            await store.asked.wait()
            raise KeyError
    store.asked.clear()
    await asyncio.sleep(0.05)
    assert not store.asked.is_set()
