"""A learner that is killed at any moment reaches the weights of one that never was."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import learner_run
import pytest
from safetensors.torch import load_file
from tiny_policy import write_tiny_weights
from torch import equal

TESTS = Path(__file__).parents[1]


def start(weights: Path, output: Path) -> "subprocess.Popen[str]":
    """Returns once it has read its checkpoint and goes on."""
    process = subprocess.Popen(
        [sys.executable, str(TESTS / "learner_run.py"), str(weights), str(output)],
        env={**os.environ, "PYTHONPATH": f"{TESTS}:{TESTS.parent}", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.slow
def test_kills_at_any_moment_do_not_change_the_weights(tmp_path: Path) -> None:
    weights = write_tiny_weights(tmp_path / "weights")
    assert start(weights, tmp_path / "steady").wait(60) == 0
    moments = random.Random(0)
    killed = 0
    while True:
        process = start(weights, tmp_path / "killed")
        time.sleep(moments.uniform(0.0, 0.15))
        if killed < 6 and process.poll() is None:
            process.kill()
            process.wait()
            killed += 1
            continue
        assert process.wait(60) == 0
        break
    assert killed > 0
    name = f"versions/v{learner_run.STEPS}/model.safetensors"
    steady, through_kills = load_file(tmp_path / "steady" / name), load_file(tmp_path / "killed" / name)
    assert all(equal(tensor, through_kills[key]) for key, tensor in steady.items())
