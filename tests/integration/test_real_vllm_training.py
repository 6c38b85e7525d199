"""`prover train` from end to end with a real vLLM as the policy engine: docs/vllm.md says how to serve one.

A small chat model is expected: the learner holds it in float32.
"""

import asyncio
import shutil
import sys
from asyncio.subprocess import Process, create_subprocess_exec
from collections.abc import Iterator
from pathlib import Path

import pytest

from prover import agents
from prover.environments import make
from prover.episodes import start
from prover.policies import PolicyClient, Sampling
from prover.policies.publish import SharedStorage
from prover.training.learner_experiment import PROBE_NATS
from prover.training.runs import Run
from prover.trajectory import Task
from tests.real_vllm import ADDRESS, WEIGHTS, named, needs_server, needs_weights

CONFIG = Path(__file__).parents[2] / "configs" / "vllm-two-steps.toml"
HELD_OUT = Task(environment="alfworld", task_id="generated/pick_and_place_simple/1000000", seed=0)

pytestmark = [pytest.mark.timeout(2400), *needs_server, needs_weights]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Path]:
    """The weights that the server was started with, as version v0; they serve again afterwards."""
    folder = named(Path(shutil.copytree(WEIGHTS, tmp_path / "served")), "v0")
    yield folder
    asyncio.run(SharedStorage(ADDRESS).publish(str(folder)))


async def watch(training: Process) -> dict[str, str]:
    """What the policy writes greedily at the start of a held-out game, by the version that wrote it."""
    client = PolicyClient(ADDRESS, timeout_s=600.0)
    begin = await start(make("alfworld"), HELD_OUT, agent=agents.make("chatml"), policy=client)
    written: dict[str, str] = {}

    async def note() -> None:
        completion = await client.complete(begin.context_token_ids, Sampling(temperature=0.0, max_tokens=48))
        written.setdefault(completion.policy_version, completion.text)

    ended = asyncio.create_task(training.wait())
    while not ended.done():
        await note()
        await asyncio.wait({ended}, timeout=1.0)
    await note()
    await client.aclose()
    return written


async def test_two_steps_on_generated_games_change_what_vllm_writes_each_time(served: Path, tmp_path: Path) -> None:
    await SharedStorage(ADDRESS).publish(str(served))
    prover = str(Path(sys.executable).parent / "prover")
    options = ["--policy", f"vllm={ADDRESS}", "--weights", str(served), "--runs-dir", str(tmp_path)]
    with (tmp_path / "log").open("wb") as log:
        training = await create_subprocess_exec(prover, "train", str(CONFIG), *options, stdout=log, stderr=log)
        written = await watch(training)
    assert training.returncode == 0, (tmp_path / "log").read_text(errors="replace")
    records = Run(tmp_path / "vllm-two-steps").records()
    assert [(record.sampled_from, record.published) for record in records] == [("v0", "v1"), ("v1", "v2")]
    for record in records:
        assert record.probe_difference is not None and 0 < record.probe_difference <= PROBE_NATS["bfloat16"]
        assert record.learner is not None and record.learner.gradient_norm > 0
    assert sorted(written) == ["v0", "v1", "v2"]
    assert len(set(written.values())) == 3, written
