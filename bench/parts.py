"""Services as processes of their own for a benchmark, with the processor time that each of them has used."""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx

from prover.local.process import Command, Supervised
from prover.local.stack import free_port, redis_server

_READY_S = 120.0


class Parts:
    """Redis, and whatever is started beside it. All of it ends with the `async with` block; logs are in `folder`.

    The processes run as `prover up` runs them: one torch thread, a Redis that writes everything to disk at once.
    """

    def __init__(self, folder: Path, *, policy_urls: str) -> None:
        """`policy_urls`: as in PROVER_POLICY_URLS, for every process."""
        self._folder = folder
        self._processes: dict[str, Supervised] = {}
        self._redis_port, self._judge_port, self._gateway_port = free_port(), free_port(), free_port()
        self._shared = {
            "PROVER_REDIS_URL": f"redis://127.0.0.1:{self._redis_port}/0",
            "PROVER_BLOB_URL": (folder / "blobs").resolve().as_uri(),
            "PROVER_POLICY_URLS": policy_urls,
            "PROVER_JUDGE_ADDRESS": f"127.0.0.1:{self._judge_port}",
            "OMP_NUM_THREADS": "1",
        }

    @property
    def gateway_url(self) -> str:
        """Where the gateway listens once it was started."""
        return f"http://127.0.0.1:{self._gateway_port}"

    async def __aenter__(self) -> "Parts":
        redis_folder = self._folder / "redis"
        for folder in (redis_folder, self._folder / "blobs"):
            folder.mkdir(parents=True, exist_ok=True)
        durable = ["--appendonly", "yes", "--appendfsync", "always"]
        place = f"--bind 127.0.0.1 --port {self._redis_port}".split()
        await self._start("redis", [redis_server(), *place, *durable, "--save", "", "--dir", str(redis_folder)], {})
        return self

    async def __aexit__(self, *_: object) -> None:
        redis = self._processes.pop("redis")
        await asyncio.gather(*(process.stop() for process in self._processes.values()))
        await redis.stop()

    async def module(self, name: str, module: str, *arguments: str, **settings: object) -> None:
        """`python -m MODULE`, with settings as environment variables."""
        environment = {**self._shared, **{key: str(value) for key, value in settings.items()}}
        await self._start(name, [sys.executable, "-m", module, *arguments], environment)

    async def system(self, *, workers: int, coordinators: int = 1, **settings: object) -> Mapping[str, str]:
        """Gateway, judge, coordinators and workers. Ready on return.

        Answers the address of each coordinator's and worker's metrics by name. `settings` are the verifiers'.
        """
        await self.module("judge", "services.judge", PROVER_JUDGE_PORT=self._judge_port)
        await self.module("gateway", "services.gateway", PROVER_GATEWAY_PORT=self._gateway_port)
        metrics = {
            **await self.verifiers("coordinator", coordinators, **settings),
            **await self.verifiers("worker", workers, **settings),
        }
        await until_answers(f"{self.gateway_url}/readyz")
        return metrics

    async def verifiers(self, role: str, count: int, **settings: object) -> Mapping[str, str]:
        """Coordinators or workers, named "worker-1" and so on. Ready on return; answers as `system` does."""
        metrics: dict[str, str] = {}
        for number in range(1, count + 1):
            port = free_port()
            metrics[f"{role}-{number}"] = f"http://127.0.0.1:{port}/metrics"
            verifier = {"PROVER_VERIFIER_METRICS_PORT": port, **settings}
            await self.module(f"{role}-{number}", "services.verifier", role, **verifier)
        for url in metrics.values():
            await until_answers(url)
        return metrics

    async def stop(self, name: str) -> None:
        """Stops one process in good order."""
        await self._processes.pop(name).stop()

    def processor_s(self) -> dict[str, float]:
        """Processor seconds, user and system, that each process has used so far."""
        return {name: _processor_s(process.pid) for name, process in self._processes.items() if process.pid is not None}

    async def _start(self, name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        log = self._folder / f"{name}.log"
        process = Supervised(Command(name=name, arguments=arguments, environment=environment, log=log))
        self._processes[name] = process
        await process.start()


async def until_answers(url: str) -> None:
    """Returns once a GET answers with success. TimeoutError after two minutes."""
    async with asyncio.timeout(_READY_S), httpx.AsyncClient(trust_env=False) as http:
        while True:
            try:
                if (await http.get(url)).is_success:
                    return
            except httpx.TransportError:
                pass  # not listening yet
            await asyncio.sleep(0.1)


def _processor_s(pid: int) -> float:
    """From /proc/PID/stat (Linux): utime and stime, fields 14 and 15 of proc(5)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
