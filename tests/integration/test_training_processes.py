"""`prover train` as people run it: services in processes of their own, killed with -9 in the middle, started again."""

import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

from prover.training.runs import Run, list_runs
from services.learner.config import SHIPPED_WEIGHTS
from tests.served_engine import serve, tiny_engine_app

CONFIG = """
name = "small"
steps = 3
[tasks]
environment = "alfworld"
train = ["generated/pick_and_place_simple/{seed}"]
test = ["generated/pick_and_place_simple/{seed}"]
options = { difficulty = { size = "small", distractors = 2, hidden = 0.0 } }
[rollouts]
group_size = 4
groups = 2
max_groups = 2
max_turns = 6
[credit]
invalid_penalty = 0.1
[evaluation]
every = 3
tasks = 4
"""
_LIMIT_S = 300.0


def start(folder: Path, *options: str) -> subprocess.Popen[bytes]:
    prover = str(Path(sys.executable).parent / "prover")
    command = [prover, "train", str(folder / "small.toml"), "--runs-dir", str(folder), *options]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log)


def said(folder: Path) -> str:
    return (folder / "log").read_text(errors="replace")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_of_real_services_survives_a_kill_and_takes_every_step_once(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(CONFIG)
    process = start(tmp_path)
    deadline = time.monotonic() + _LIMIT_S
    try:
        while not Run(tmp_path / "small").records():
            assert process.poll() is None and time.monotonic() < deadline, said(tmp_path)
            time.sleep(0.2)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert [run.status for run in list_runs(tmp_path)] == ["stopped"]

    assert start(tmp_path).wait(_LIMIT_S) == 0, said(tmp_path)
    (run,) = list_runs(tmp_path)
    assert (run.status, run.step) == ("finished", 3)
    assert [each.step for each in Run(tmp_path / "small").evaluations()] == [0, 3]
    records = Run(tmp_path / "small").records()
    assert [record.step for record in records] == [1, 2, 3]
    for before, after in pairwise(records):
        assert after.sampled_from == (before.published or before.sampled_from)
        assert after.learner_step - before.learner_step in (0, 1)
    trained = [record for record in records if record.learner is not None]
    assert trained
    for record in trained:
        assert record.learner is not None and record.learner.engine_kl < 0.1 and not record.alert
        assert record.probe_difference is not None and record.probe_difference < 0.05
        assert record.phases["rollout"].tokens > 0 and record.phases["training"].tokens > 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_engine_that_runs_already_is_sampled_from_and_published_to(tmp_path: Path) -> None:
    config = CONFIG.replace("steps = 3", "steps = 1").replace("every = 3", "every = 0")
    (tmp_path / "small.toml").write_text(config)
    with serve(tiny_engine_app(SHIPPED_WEIGHTS)) as url:
        process = start(tmp_path, "--policy", f"mine={url}", "--weights", str(SHIPPED_WEIGHTS))
        assert process.wait(_LIMIT_S) == 0, said(tmp_path)
        served = httpx.get(f"{url}/v1/models").json()["data"][0]["weights_version"]
    (record,) = Run(tmp_path / "small").records()
    assert served == (record.published or record.sampled_from)
    assert record.phases["rollout"].tokens > 0
    assert not (tmp_path / "small" / "services" / "logs" / "engine.log").exists()


def test_an_engine_without_the_weights_that_it_serves_is_refused(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(CONFIG)
    assert start(tmp_path, "--policy", "mine=http://127.0.0.1:1").wait(60) == 1
    assert "were mine=http://127.0.0.1:1 and none; expected both, or neither" in said(tmp_path)
