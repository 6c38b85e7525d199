"""An upgrade in the middle of work: processes of the previous release beside those of this one, and analyses under way.

The previous release is the newest tag before this commit, or what PROVER_PREVIOUS names; before there is a release, the
first commit that this test held. Its code is exported and run with this environment's packages.
"""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest
from chain_world import OPTIONS as CHAIN_OPTIONS
from chain_world import mixed_group
from redis.asyncio import Redis
from verifier_processes import Processes, until

from prover.client import AsyncProverClient
from prover.local.stack import free_port

ROOT = Path(__file__).parents[2]
SERVICES = ("judge", "coordinator", "worker", "gateway")
SAMPLES = 4
OPTIONS = {"mode": "fixed", "samples": SAMPLES, "max_turns": 20, "policy": "chain", "max_tokens": 32}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def _git(*arguments: str) -> str | None:
    ran = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    return ran.stdout.strip() if ran.returncode == 0 else None


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The previous release's code."""
    tag = _git("describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD^")
    held = _git("log", "--format=%H", "--", "tests/integration/test_mixed_versions.py") or ""
    revision = os.environ.get("PROVER_PREVIOUS") or tag or held.rpartition("\n")[2]
    if _git("cat-file", "-e", f"{revision}^{{commit}}") is None:
        pytest.skip(f"the previous release, {revision!r}, is not in this checkout's history")
    tree = tmp_path_factory.mktemp("previous")
    archive = tree / "code.tar"
    assert _git("archive", "-o", str(archive), revision, "prover", "services") is not None
    subprocess.run(["tar", "-xf", str(archive), "-C", str(tree)], check=True)
    return tree


class Mixed:
    """All services as processes; each one's code is this release's or the previous one's."""

    def __init__(self, redis_url: str, folder: Path) -> None:
        self._judge_port, self._gateway_port = free_port(), free_port()
        self.processes = Processes(
            redis_url=redis_url, folder=folder, judge_port=self._judge_port, engine_port=free_port()
        )
        self.url = f"http://127.0.0.1:{self._gateway_port}"

    def start(self, service: str, tree: Path) -> None:
        """One service, from a folder of code."""
        ports = {"PROVER_JUDGE_PORT": self._judge_port, "PROVER_GATEWAY_PORT": self._gateway_port}
        settings = {name: str(port) for name, port in ports.items()} | {"PROVER_GATEWAY_IDLE_S": "1"}
        roles = {"coordinator": ["services.verifier", "coordinator"], "worker": ["services.verifier", "worker"]}
        self.processes.start_module(service, roles.get(service, [f"services.{service}"]), settings, tree=tree)

    async def submit(self, count: int) -> list[str]:
        """Analyses of one mixed group."""
        group = await mixed_group()
        async with AsyncProverClient(self.url, retries=60) as client:
            return [await client.submit(group, {**OPTIONS, "judge": "contrast"}) for _ in range(count)]

    async def check(self, ids: Iterable[str]) -> None:
        """Each one ends as done, with every sample played and counted once, and credit for every trajectory."""
        async with AsyncProverClient(self.url, retries=60) as client:
            for analysis_id in ids:
                analysis = await client.wait(analysis_id, timeout_s=120)
                assert analysis["status"] == "done", analysis["error"]
                verification = analysis["verification"]
                assert verification is not None
                sides = (verification["before"]["samples"], verification["after"]["samples"])
                assert sides == (SAMPLES, SAMPLES)
                outcomes = [event async for event in client.events(analysis_id) if event.event == "outcome"]
                assert len(outcomes) == 2 * SAMPLES
                assert len((await client.advantages(analysis_id))["trajectories"]) == 8


@pytest.fixture
async def mixed(redis_url: str, tmp_path: Path) -> AsyncIterator[Mixed]:
    running = Mixed(redis_url, tmp_path)
    yield running
    running.processes.close()
    await running.processes.store.aclose()


@pytest.mark.parametrize("old", [("gateway",), ("worker",), ("coordinator", "judge")], ids="-".join)
async def test_services_of_the_previous_release_work_beside_those_of_this_one(
    mixed: Mixed, previous: Path, old: tuple[str, ...]
) -> None:
    mixed.processes.engine()
    for service in SERVICES:
        mixed.start(service, previous if service in old else ROOT)
    await mixed.check(await mixed.submit(2))


@pytest.mark.parametrize("direction", ["upgrade", "roll-back"])
async def test_analyses_under_way_outlive_a_change_of_the_release(mixed: Mixed, previous: Path, direction: str) -> None:
    before, after = (previous, ROOT) if direction == "upgrade" else (ROOT, previous)
    mixed.processes.engine(pause_s=0.1)
    for service in SERVICES:
        mixed.start(service, before)
    ids = await mixed.submit(6)

    async def under_way() -> bool:
        counts = [await mixed.processes.store.count(name, "before") for name in ids]
        return any(0 < count.samples < SAMPLES for count in counts)

    await until(under_way)
    for service in ("coordinator", "worker", "judge", "gateway"):
        await asyncio.to_thread(mixed.processes.terminate, service)
        mixed.start(service, after)
    await mixed.check([*ids, *await mixed.submit(1)])


@pytest.mark.parametrize("release", ["this", "previous"])
async def test_an_analysis_that_needs_a_later_protocol_is_left_as_it_is(
    mixed: Mixed, previous: Path, redis_url: str, release: str
) -> None:
    tree = ROOT if release == "this" else previous
    store = mixed.processes.store
    await store.create("later", await mixed_group(), CHAIN_OPTIONS)
    async with Redis.from_url(redis_url) as redis:
        await redis.hset("prover:{later}:analysis", "protocol", 99)
    mixed.start("coordinator", tree)
    mixed.processes.send_analyze("later")

    async def left() -> bool:
        log = mixed.processes.log("coordinator")
        return "left to a newer process: protocol: the analysis needs 99" in log

    await until(left)
    analysis = await store.get("later")
    assert analysis is not None
    assert (analysis.status.value, analysis.judgement, analysis.error) == ("queued", None, None)

    async def one_message() -> bool:
        return mixed.processes.messages() == 1

    await until(one_message)  # the old message is given back just after its follower was sent: for a moment, two
