"""Two processes that train one policy, as torchrun starts them on several GPUs; here on the CPU, over gloo."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from served_engine import serve, tiny_engine_app
from tiny_policy import random_trajectory, write_tiny_weights

from prover.local.stack import free_port
from prover.rpc.channels import open_channel
from prover.rpc.clients import LearnerClient, RpcError
from prover.training.learner_experiment import read_learner_experiment
from prover.trajectory import CreditedTrajectory
from services.learner.learner import Learner

ROOT = Path(__file__).parents[2]
LIMIT_S = 240.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

WHOLE = """
learning_rate = 1e-2
warmup_steps = 2
kl_weight = 0.1
pack_tokens = 60
activation_checkpointing = true
"""
ADAPTERS = "learning_rate = 1e-2\nlora_rank = 2\n"

BATCHES: tuple[list[CreditedTrajectory], ...] = (
    [random_trajectory(seed, turns=1 + 2 * seed) for seed in range(5)],
    [random_trajectory(9)],  # one of the two has nothing to compute
    [random_trajectory(seed, append_only=False) for seed in range(20, 23)],
    [random_trajectory(seed) for seed in range(30, 36)],
)


class Job:
    """`torchrun -m services.learner` with two processes, of one node or of two that meet over the network."""

    def __init__(
        self, folder: Path, weights: Path, *, engine: str = "http://127.0.0.1:9", experiment: str, nodes: int = 1
    ) -> None:
        (folder / "experiment.toml").write_text(experiment)
        self.port = free_port()
        self._log = folder / "log"
        settings = {
            "PROVER_LEARNER_PORT": str(self.port),
            "PROVER_LEARNER_WEIGHTS": str(weights),
            "PROVER_LEARNER_OUTPUT_DIR": str(folder / "out"),
            "PROVER_LEARNER_EXPERIMENT": str(folder / "experiment.toml"),
            "PROVER_POLICY_URLS": f"tiny={engine}",
            "OMP_NUM_THREADS": "1",
        }
        torchrun = [str(Path(sys.executable).with_name("torchrun")), f"--nproc-per-node={2 // nodes}"]
        meet = ["--standalone"] if nodes == 1 else [f"--nnodes={nodes}", *_rendezvous(), "--max-restarts=0"]
        command = [*torchrun, *meet, "-m", "services.learner"]
        with self._log.open("ab") as log:
            self._agents = [
                subprocess.Popen(command, cwd=ROOT, env={**os.environ, **settings}, stdout=log, stderr=log)
                for _ in range(nodes)
            ]
        self._process = self._agents[0]

    @property
    def said(self) -> str:
        return self._log.read_text(errors="replace")

    def kill_rank(self, rank: int) -> None:
        """SIGKILL to one of the two."""
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        environments = {child: Path(f"/proc/{child}/environ").read_bytes().split(b"\0") for child in children}
        (found,) = [child for child, lines in environments.items() if f"RANK={rank}".encode() in lines]
        os.kill(int(found), signal.SIGKILL)

    def wait(self) -> int:
        return self._process.wait(LIMIT_S)

    def stop(self) -> None:
        """In order. torchrun itself always ends with 1 when it is told to."""
        for agent in self._agents:
            agent.terminate()
        for agent in self._agents:
            agent.wait(LIMIT_S)
        assert "forcefully exiting" not in self.said

    @asynccontextmanager
    async def client(self) -> AsyncIterator[LearnerClient]:
        """Once it answers."""
        deadline = time.monotonic() + LIMIT_S
        async with open_channel(f"127.0.0.1:{self.port}") as channel:
            client = LearnerClient(channel)
            while True:
                try:
                    await client.state(timeout_s=5.0)
                    break
                except RpcError:
                    assert self._process.poll() is None and time.monotonic() < deadline, self.said
                    time.sleep(0.2)
            yield client


def _rendezvous() -> list[str]:
    return ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{free_port()}", "--rdzv-id=learner"]


def assert_close(folder: Path, other: Path) -> None:
    """Two versions' weights, to what the order of float32 sums leaves open."""
    one, two = load_file(folder / "model.safetensors"), load_file(other / "model.safetensors")
    assert one.keys() == two.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(
            tensor, two[name], rtol=1e-3, atol=2e-4, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.mark.parametrize(("experiment", "nodes"), [(WHOLE, 2), (ADAPTERS, 1)], ids=["whole, two nodes", "adapters"])
async def test_two_processes_take_the_steps_of_one(tmp_path: Path, experiment: str, nodes: int) -> None:
    weights = write_tiny_weights(tmp_path / "weights")
    with serve(tiny_engine_app(weights)) as engine:
        job = Job(tmp_path, weights, engine=engine, experiment=experiment, nodes=nodes)
        alone = Learner(weights, tmp_path / "alone", read_learner_experiment(tmp_path / "experiment.toml"))
        try:
            async with job.client() as client:
                for step, batch in enumerate(BATCHES):
                    mine = alone.step(batch)
                    theirs = await client.step(batch, timeout_s=LIMIT_S, after_step=step)
                    assert theirs.step == step + 1
                    assert theirs.loss == pytest.approx(mine.loss, rel=1e-3, abs=1e-5)
                    assert theirs.gradient_norm == pytest.approx(mine.gradient_norm, rel=1e-3)
                    assert theirs.entropy == pytest.approx(mine.entropy, rel=1e-4)
                    assert theirs.sampled_tokens == mine.sampled_tokens
                with pytest.raises(RpcError, match="INVALID_ARGUMENT: batch: held no sampled tokens"):
                    await client.step([], timeout_s=LIMIT_S)
                published = await client.publish(timeout_s=LIMIT_S)
                assert published.version == "v4" and published.probe_difference < 0.01
        finally:
            job.stop()
    assert_close(Path(published.weights_path), alone.save_version())


async def test_a_rank_that_dies_ends_the_job_which_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    weights = write_tiny_weights(tmp_path / "weights")
    alone = Learner(weights, tmp_path / "alone", read_learner_experiment(_written(tmp_path / "e.toml", WHOLE)))
    for batch in BATCHES:
        alone.step(batch)
    job = Job(tmp_path, weights, experiment=WHOLE)
    async with job.client() as client:
        for batch in BATCHES[:2]:
            await client.step(batch, timeout_s=LIMIT_S)
        job.kill_rank(1)
        assert job.wait() != 0
    assert "they go on from the newest checkpoint" in job.said
    job = Job(tmp_path, weights, experiment=WHOLE)
    try:
        async with job.client() as client:
            assert (await client.state(timeout_s=LIMIT_S)).step == 2
            await client.step(BATCHES[2], timeout_s=LIMIT_S, after_step=2)
    finally:
        job.stop()
    # What two saved, one goes on with: checkpoints do not depend on how many there are.
    single = Learner(weights, tmp_path / "out", read_learner_experiment(tmp_path / "experiment.toml"))
    assert single.state.step == 3
    single.step(BATCHES[3])
    assert_close(single.save_version(), alone.save_version())


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path
