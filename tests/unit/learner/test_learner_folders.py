"""What stands under a folder's name, whatever happens while its follower is written."""

import os
import signal
import subprocess
import sys
from itertools import count, pairwise
from pathlib import Path

import pytest
from tiny_policy import random_trajectory, write_tiny_weights

from prover.training.learner_experiment import LearnerExperiment
from services.learner.folders import WriteFailed, mend, remove_oldest, write_folder
from services.learner.learner import Learner

ROOT = Path(__file__).parents[3]

WRITER = """
import os, signal, sys
from pathlib import Path
from services.learner.folders import write_folder

left = int(sys.argv[2])

def fill(folder):
    (folder / "weights").write_text("new")
    (folder / "prover.json").write_text("new")

def kill(event, arguments):
    global left
    if event in ("open", "shutil.rmtree") or (event.startswith("os.") and event != "os.kill"):
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1

sys.addaudithook(kill)
write_folder(Path(sys.argv[1]), fill)
os._exit(0)
"""
"""Writes a folder, and kills itself before the file operation of that number."""


def held(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def write(folder: Path, text: str) -> None:
    def fill(unfinished: Path) -> None:
        (unfinished / "weights").write_text(text)
        (unfinished / "prover.json").write_text(text)

    write_folder(folder, fill)


def test_killed_before_any_file_operation_the_folder_is_the_old_one_or_the_new_one(tmp_path: Path) -> None:
    old, new = {"weights": "old", "prover.json": "old"}, {"weights": "new", "prover.json": "new"}
    found = []
    for operation in count():
        folder = tmp_path / str(operation) / "v1"
        write(folder, "old")
        command = [sys.executable, "-c", WRITER, str(folder), str(operation)]
        code = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False).returncode
        mend(folder.parent)
        found.append(held(folder))
        assert [path.name for path in folder.parent.iterdir()] == ["v1"]
        if code == 0:
            break
        assert code == -signal.SIGKILL
    assert found[0] == old
    assert found[-1] == new
    changes = sum(one != other for one, other in pairwise(found))
    assert changes == 1 and len(found) > 10


def test_a_learner_puts_back_the_version_that_a_kill_left_aside(tmp_path: Path) -> None:
    weights = write_tiny_weights(tmp_path / "weights")
    learner = Learner(weights, tmp_path / "out", LearnerExperiment())
    learner.step([random_trajectory(1)])
    version = learner.save_version()
    served = (version / "model.safetensors").read_bytes()
    version.rename(version.with_name(".replaced-v1"))
    version.with_name(".unfinished-v1").mkdir()
    Learner(weights, tmp_path / "out", LearnerExperiment())
    assert [path.name for path in version.parent.iterdir()] == ["v1"]
    assert (version / "model.safetensors").read_bytes() == served


def test_a_version_that_is_written_again_with_the_same_content_is_not_touched(tmp_path: Path) -> None:
    learner = Learner(write_tiny_weights(tmp_path / "weights"), tmp_path / "out", LearnerExperiment())
    learner.step([random_trajectory(1)])
    before = (learner.save_version() / "model.safetensors").stat()
    again = learner.save_version()
    assert (again / "model.safetensors").stat().st_ino == before.st_ino
    (again / "model.safetensors").write_bytes(b"damaged")
    assert (learner.save_version() / "model.safetensors").stat().st_size == before.st_size


def test_a_write_that_fails_leaves_what_stood_there(tmp_path: Path) -> None:
    write(tmp_path / "v1", "old")

    def fill(unfinished: Path) -> None:
        (unfinished / "weights").write_text("new")
        raise OSError("no space left")

    with pytest.raises(WriteFailed, match="no space left"):
        write_folder(tmp_path / "v1", fill)
    assert [path.name for path in tmp_path.iterdir()] == ["v1"]
    assert held(tmp_path / "v1") == {"weights": "old", "prover.json": "old"}


def test_what_is_kept_as_it_is_counts_as_written_last(tmp_path: Path) -> None:
    for name in ("v1", "v2", "v3", "v1"):
        write(tmp_path / name, name)
    remove_oldest(tmp_path, kept=2, spared=tmp_path / "v3")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["v1", "v3"]
