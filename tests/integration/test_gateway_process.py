"""The gateway as a process: stopped, killed, and with a Redis that is killed under it."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from redis.asyncio import Redis

from prover.client import AsyncProverClient, ProblemError
from prover.local.stack import free_port
from prover.store import open_store
from services.gateway.examples import SUBMISSION_EXAMPLE
from tests.conftest import start_redis
from tests.rest_server import play_through


@dataclass
class Process:
    """A gateway that can be killed and started again on the same port."""

    port: int
    redis_url: str
    folder: Path
    running: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> subprocess.Popen[bytes]:
        environment = os.environ | {
            "PROVER_GATEWAY_PORT": str(self.port),
            "PROVER_GATEWAY_IDLE_S": "0.5",
            "PROVER_REDIS_URL": self.redis_url,
            "PROVER_BLOB_URL": (self.folder / "blobs").as_uri(),
            "PROVER_JUDGE_ADDRESS": f"127.0.0.1:{free_port()}",
            "PROVER_POLICY_URLS": f"embedded=http://127.0.0.1:{free_port()}",
        }
        with (self.folder / "gateway.log").open("ab") as log:
            self.running = subprocess.Popen(
                [sys.executable, "-m", "services.gateway"], env=environment, stdout=log, stderr=log
            )
        return self.running

    async def answers(self) -> None:
        async with httpx.AsyncClient(base_url=self.url) as http:
            while True:
                try:
                    if (await http.get("/healthz")).status_code == 200:
                        return
                except httpx.TransportError:
                    assert self.running is not None
                    assert self.running.poll() is None, (self.folder / "gateway.log").read_text()
                await asyncio.sleep(0.05)

    def kill(self) -> None:
        if self.running is not None:
            self.running.kill()
            self.running.wait()


@pytest.fixture
async def gateway(redis_url: str, tmp_path: Path) -> AsyncIterator[Process]:
    process = Process(port=free_port(), redis_url=redis_url, folder=tmp_path)
    process.start()
    await process.answers()
    yield process
    process.kill()


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A Redis that the test may kill: its address, and the list of processes that served it."""
    port = free_port()
    (tmp_path / "redis").mkdir()
    started = [start_redis(port, str(tmp_path / "redis"))]
    yield f"redis://127.0.0.1:{port}/0", started
    started[-1].kill()
    started[-1].wait()


async def test_sigterm_ends_a_gateway_with_open_streams_and_waits(gateway: Process) -> None:
    async with AsyncProverClient(gateway.url) as client, httpx.AsyncClient(base_url=gateway.url, timeout=60) as http:
        analysis_id = await client.submit_json(SUBMISSION_EXAMPLE)
        waiting = asyncio.create_task(http.get(f"/v1/analyses/{analysis_id}?wait=60"))
        async with http.stream("GET", f"/v1/analyses/{analysis_id}/events") as stream:
            lines = stream.aiter_lines()
            while "queued" not in await anext(lines):
                pass
            assert gateway.running is not None
            gateway.running.send_signal(signal.SIGTERM)
            rest = [line async for line in lines]
        assert not any("status" in line for line in rest)
        answer = await waiting
        assert (answer.status_code, answer.json()["status"]) == (200, "queued")
    code = await asyncio.wait_for(asyncio.to_thread(gateway.running.wait), 10)
    assert code in (0, -signal.SIGTERM), "it ended by itself and not by force"
    assert "Traceback" not in (gateway.folder / "gateway.log").read_text()


async def test_a_killed_gateway_forgets_nothing_and_its_readers_come_back(gateway: Process) -> None:
    store = open_store(gateway.redis_url, (gateway.folder / "blobs").as_uri())
    async with AsyncProverClient(gateway.url, retries=10) as client:
        analysis_id = await client.submit_json(SUBMISSION_EXAMPLE, key="k")
        seen: list[object] = []

        async def read() -> None:
            async for event in client.events(analysis_id):
                seen.append(event.data.get("status", event.event))

        reading = asyncio.create_task(read())
        while not seen:
            await asyncio.sleep(0.02)
        gateway.kill()
        gateway.start()
        await play_through(store, analysis_id)
        await asyncio.wait_for(reading, 30)
        assert seen == ["queued", "proposing", "verifying", *["outcome"] * 4, "done"], "each event once"
        assert await client.submit_json(SUBMISSION_EXAMPLE, key="k") == analysis_id
        assert len((await client.advantages(analysis_id))["trajectories"]) == 2
    await store.aclose()


async def test_a_message_that_a_killed_worker_took_with_it_is_sent_again(gateway: Process) -> None:
    async with AsyncProverClient(gateway.url) as client, Redis.from_url(gateway.redis_url) as redis:
        await client.submit_json(SUBMISSION_EXAMPLE)
        taken = [await redis.blpop(["analyze"], timeout=20) for _ in range(3)]
        assert all(taken), "the same analysis comes again for as long as nobody works on it"


@pytest.mark.slow
async def test_a_redis_that_is_killed_is_a_503_and_then_everything_is_there_again(
    own_redis: tuple[str, list[subprocess.Popen[bytes]]], tmp_path: Path
) -> None:
    redis_url, started = own_redis
    gateway = Process(port=free_port(), redis_url=redis_url, folder=tmp_path)
    gateway.start()
    try:
        await gateway.answers()
        async with (
            AsyncProverClient(gateway.url, retries=10) as client,
            AsyncProverClient(gateway.url, retries=0) as impatient,
        ):
            analysis_id = await client.submit_json(SUBMISSION_EXAMPLE)
            started[-1].kill()
            started[-1].wait()
            with pytest.raises(ProblemError) as caught:
                await impatient.get(analysis_id)
            assert (caught.value.status, caught.value.kind) == (503, "unavailable")
            async with httpx.AsyncClient(base_url=gateway.url, timeout=20) as http:
                assert (await http.get("/healthz")).status_code == 200
                assert (await http.get("/metrics")).status_code == 200
                ready = await http.get("/readyz")
                assert ready.status_code == 503
                assert "Connect call failed" in ready.json()["dependencies"]["redis"]
                assert "judge" in ready.json()["dependencies"]
            late = asyncio.create_task(client.submit_json(SUBMISSION_EXAMPLE))
            port = int(redis_url.rpartition(":")[2].partition("/")[0])
            started.append(start_redis(port, str(tmp_path / "redis")))
            assert (await client.get(analysis_id))["status"] == "queued"
            assert (await client.get(await late))["status"] == "queued"
    finally:
        gateway.kill()
