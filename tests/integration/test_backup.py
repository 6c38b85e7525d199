"""The documented copy of Redis: taken while analyses are written, and read back by another Redis."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from redis import Redis

from prover.analysis import Options
from prover.lifecycle import Status
from prover.local import stack
from prover.store import open_store
from prover.trajectory import Group, Outcome, Task, Trajectory, Turn
from tests.conftest import start_redis

SCRIPTS = Path(__file__).parents[2] / "deploy" / "redis"
TASK = Task(environment="chain", task_id="generated/1")
WON = Outcome(success=True, reward=1.0, tokens=7)


def _group() -> Group:
    turns = (Turn(observation="o", text="t", action="a"),)
    won = Trajectory(id="t0", task=TASK, policy_version="v0", turns=turns, reward=1.0, success=True)
    return Group(task=TASK, policy_version="v0", trajectories=(won,))


@dataclass(frozen=True, slots=True)
class Server:
    """A redis-server of the test's own."""

    port: int
    folder: Path

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def client(self) -> Redis:
        return Redis(port=self.port, decode_responses=True)

    def run(self, script: str) -> subprocess.CompletedProcess[bytes]:
        """A script of deploy/redis, as it runs in the container: read from standard input."""
        path = f"{Path(stack.redis_server()).parent}:{os.environ['PATH']}"
        return subprocess.run(
            ["sh", "-s", "--", "-p", str(self.port)],
            input=(SCRIPTS / script).read_bytes(),
            capture_output=True,
            env=os.environ | {"PATH": path},
            check=False,
        )

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        process = start_redis(self.port, str(self.folder))
        try:
            yield process
        finally:
            process.kill()
            process.wait()


@pytest.fixture
def servers(tmp_path: Path) -> tuple[Server, Server]:
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    return Server(stack.free_port(), tmp_path / "old"), Server(stack.free_port(), tmp_path / "new")


async def _analyses(url: str, blobs: Path, names: list[str]) -> None:
    store = open_store(url, blobs.as_uri())
    for name in names:
        await store.create(name, _group(), Options())
        await store.move(name, Status.PROPOSING)
        await store.move(name, Status.VERIFYING)
        await store.record_outcome(name, side="before", sample=0, outcome=WON)
    await store.aclose()


async def test_an_analysis_is_read_back_from_a_copy_that_was_taken_while_others_were_written(
    servers: tuple[Server, Server], tmp_path: Path
) -> None:
    old, new = servers
    names = [f"a{number}" for number in range(40)]
    with ExitStack() as running:
        running.enter_context(old.running())
        await _analyses(old.url, tmp_path, ["kept"])
        old.client().bgrewriteaof()
        writing = asyncio.create_task(_analyses(old.url, tmp_path, names))
        copied = await asyncio.to_thread(old.run, "backup")
        await writing
        assert copied.returncode == 0, copied.stderr.decode()
        assert old.client().config_get("auto-aof-rewrite-percentage") == {"auto-aof-rewrite-percentage": "100"}

        process = running.enter_context(new.running())
        new.client().set("of", "before the restore")
        (new.folder / "copy").mkdir()
        subprocess.run(["tar", "-C", str(new.folder / "copy"), "-xf", "-"], input=copied.stdout, check=True)
        restored = new.run("restore")
        assert restored.returncode == 0, restored.stderr.decode()
        assert process.wait(timeout=20) == 0

        running.enter_context(new.running())
        assert not new.client().exists("of")
        assert new.client().config_get("auto-aof-rewrite-percentage") == {"auto-aof-rewrite-percentage": "100"}
        store = open_store(new.url, tmp_path.as_uri())
        kept = await store.get("kept")
        assert kept is not None and kept.status is Status.VERIFYING
        assert await store.group("kept") == _group()
        assert await store.outcomes("kept", "before") == {0: WON}
        await store.aclose()


async def test_without_a_copy_nothing_is_thrown_away(servers: tuple[Server, Server], tmp_path: Path) -> None:
    server, _ = servers
    with server.running():
        await _analyses(server.url, tmp_path, ["kept"])
        refused = server.run("restore")
        assert refused.returncode == 1 and b"no copy in" in refused.stderr
        assert server.client().exists("prover:{kept}:analysis")
