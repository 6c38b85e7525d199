"""Curves for trackio and Weights & Biases."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from prover.training.tensorboard import scalars
from prover.training.tracker import TRACKERS, Tracker, TrackerMissing
from tests.unit.training.test_training_observers import AFTER, RECORD

STAND_IN = """
import json
from pathlib import Path

class Run:
    def log(self, metrics, step=None):
        write("log", metrics=metrics, step=step)

    def finish(self):
        write("finish")

def init(project, name=None, config=None, resume="never", **others):
    write("init", project=project, name=name, config=config, resume=resume, **others)
    return Run()

def write(call, **arguments):
    with Path(__file__).with_name("calls").open("a") as file:
        file.write(json.dumps([call, arguments]) + "\\n")
"""
"""The calls of trackio 0.43 and wandb that are made; the packages are not among those of the tests."""


@pytest.fixture(params=sorted(TRACKERS))
def package(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The stand-in, under one of the names."""
    (tmp_path / f"{request.param}.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop(request.param, None)
    yield request.param
    sys.modules.pop(request.param, None)


def test_each_step_and_evaluation_goes_to_a_run_that_can_be_gone_on_with(package: str, tmp_path: Path) -> None:
    tracker = Tracker(package, name="demo", config={"steps": 3})
    tracker.recorded(RECORD)
    tracker.evaluated(AFTER)
    tracker.close()
    calls = [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]
    assert [name for name, _ in calls] == ["init", "log", "log", "finish"]
    begun, stepped, judged = (arguments for _, arguments in calls[:3])
    named = dict.fromkeys(TRACKERS[package], "demo")
    assert begun == {"project": "prover", "config": {"steps": 3}, "resume": "allow"} | named
    assert stepped == {"metrics": dict(scalars(RECORD)), "step": 1}
    assert (judged["metrics"]["evaluation/success"], judged["step"]) == (0.4, 1)


def test_the_real_trackio_keeps_the_curves_of_a_run_over_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path))
    storage = pytest.importorskip("trackio.sqlite_storage").SQLiteStorage
    for entry in ("recorded", "evaluated"):
        tracker = Tracker("trackio", name="demo", config={"steps": 3})
        getattr(tracker, entry)(RECORD if entry == "recorded" else AFTER)
        tracker.close()
    assert storage.get_runs("prover") == ["demo"]
    stepped, judged = storage.get_logs("prover", "demo")
    assert stepped["learner/loss"] == dict(scalars(RECORD))["learner/loss"]
    assert judged["evaluation/success"] == 0.4


def test_a_tracker_that_is_not_there_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(TrackerMissing, match=r"wandb is not installed: pip install 'prover\[wandb\]'"):
        Tracker("wandb", name="demo", config={})
    with pytest.raises(ValueError, match="tracker: was 'mlflow'; expected one of trackio, wandb"):
        Tracker("mlflow", name="demo", config={})
