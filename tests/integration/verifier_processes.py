"""The verifier as it runs: coordinator and workers as processes, a Redis to kill, an engine and a judge beside them."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
from celery import Celery
from redis import Redis

from prover.local.stack import free_port
from prover.queues import ANALYZE, ANALYZE_TASK
from prover.rpc import convert
from prover.rpc.servers import Server
from prover.rpc.v1 import judge_pb2_grpc
from prover.store import open_store
from prover.trajectory import Judgement, Proposal, Segment

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


class JudgeService(judge_pb2_grpc.JudgeServiceServicer):
    """Points at the same segment, every time, after `pause_s`."""

    def __init__(self, segment: Segment, *, pause_s: float = 0.0) -> None:
        self.pause_s = pause_s
        self.asked = 0
        self._proposal = Proposal(segment=segment, failure_mode="the trap", reason="the right door", judge="contrast")

    async def Propose(self, request, context):
        self.asked += 1
        await asyncio.sleep(self.pause_s)
        return convert.judgement_to_wire(Judgement(judge="contrast", prompt_version="1", proposals=(self._proposal,)))

    async def ListJudges(self, request, context):
        raise NotImplementedError

    def register(self, server) -> str:
        judge_pb2_grpc.add_JudgeServiceServicer_to_server(self, server)
        return "prover.rpc.v1.JudgeService"


class Processes:
    """Starts parts, kills them, and ends all of them at the end."""

    def __init__(self, *, redis_url: str, folder: Path, judge_port: int, engine_port: int) -> None:
        self.folder = folder
        self.engine_port = engine_port
        self.store = open_store(redis_url, f"file://{folder}/blobs")
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._redis_url = redis_url
        self._environment = {
            **os.environ,
            "PROVER_REDIS_URL": redis_url,
            "PROVER_BLOB_URL": f"file://{folder}/blobs",
            "PROVER_JUDGE_ADDRESS": f"127.0.0.1:{judge_port}",
            "PROVER_POLICY_URLS": f"chain=http://127.0.0.1:{engine_port}",
            "PROVER_VERIFIER_BATCH_SAMPLES": "4",
            "PROVER_VERIFIER_TASK_LIMIT_S": "3",
            "PROVER_VERIFIER_JUDGE_TIMEOUT_S": "3",
            "PROVER_VERIFIER_VISIBILITY_TIMEOUT_S": "4",
        }

    def engine(self, *, pause_s: float = 0.0, version: str = "v0", name: str = "chain", chance: float = 0.5) -> None:
        """A policy engine; returns once it answers. Under another name than "chain" it is one more, to be started
        before those who ask it."""
        port = self.engine_port if name == "chain" else free_port()
        settings = ["--pause-s", str(pause_s), "--version", version, "--chance", str(chance)]
        self._start(
            "engine" if name == "chain" else f"engine-{name}", [str(HERE / "chain_engine.py"), str(port), *settings]
        )
        if name != "chain":
            self._environment["PROVER_POLICY_URLS"] += f",{name}=http://127.0.0.1:{port}"
        deadline = time.monotonic() + 60
        while True:
            try:
                httpx.get(f"http://127.0.0.1:{port}/v1/models", trust_env=False)
                return
            except httpx.HTTPError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def verifier(self, role: str, name: str, **settings: object) -> None:
        """A coordinator or a worker."""
        changed = {f"PROVER_VERIFIER_{key.upper()}": str(value) for key, value in settings.items()}
        self._start(name, ["-m", "services.verifier", role], changed)

    def start_module(self, name: str, module: list[str], settings: dict[str, str], *, tree: Path = ROOT) -> None:
        """`python -m MODULE ARGUMENTS` with the code that lies in `tree`."""
        self._start(name, ["-m", *module], {**settings, "PYTHONPATH": str(tree)}, folder=tree)

    def kill(self, name: str) -> None:
        """As kill -9 does."""
        process = self.running.pop(name)
        process.kill()
        process.wait()

    def terminate(self, name: str, *, timeout_s: float = 20.0) -> int:
        """As an orderly stop does. The exit code."""
        process = self.running.pop(name)
        process.send_signal(signal.SIGTERM)
        return process.wait(timeout=timeout_s)

    def log(self, name: str) -> str:
        """What a part has said."""
        return (self.folder / f"{name}.log").read_text()

    def send_analyze(self, analysis_id: str) -> None:
        """What a gateway sends, at first and whenever nothing moves."""
        app = Celery("test", broker=self._redis_url, set_as_current=False)
        app.send_task(ANALYZE_TASK, args=[analysis_id], queue=ANALYZE)
        app.close()

    def messages(self) -> int:
        """Messages in the queues, taken and not."""
        with Redis.from_url(self._redis_url) as client:
            return int(client.llen("analyze")) + int(client.llen("continue")) + int(client.hlen("unacked"))

    def close(self) -> None:
        """Ends everything."""
        for name in list(self.running):
            self.kill(name)

    def _start(
        self, name: str, arguments: list[str], settings: dict[str, str] | None = None, *, folder: Path | None = None
    ) -> None:
        environment = {**self._environment, **(settings or {})}
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [sys.executable, *arguments], env=environment, cwd=folder, stdout=log, stderr=log
            )


async def serve_judge(judge: JudgeService) -> Server:
    """On a free port."""
    server = Server([judge.register])
    await server.start()
    return server


async def until(condition, *, timeout_s: float = 90.0) -> None:
    """Waits for something to become true."""
    deadline = time.monotonic() + timeout_s
    while not await condition():
        if time.monotonic() > deadline:
            raise AssertionError("waited in vain")
        await asyncio.sleep(0.05)
