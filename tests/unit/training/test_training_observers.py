"""Those who watch a run: TensorBoard, Prometheus, the terminal, the report."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from rich.console import Console

from prover.training.curriculum import Outcome
from prover.training.display import Display, runs_table
from prover.training.metrics import TrainingMetrics
from prover.training.records import Evaluated, Groups, Phase, StepRecord, Verified
from prover.training.report import NothingMeasured, write_report
from prover.training.runs import Run, RunSummary
from prover.training.tensorboard import TensorBoard, scalars
from tests.unit.training.fakes import metrics

RECORD = StepRecord(
    step=1,
    started_at=0.0,
    seconds=12.0,
    sampled_from="v0",
    lag=0,
    groups=Groups(sampled=10, failed=0, without_signal=4, eligible=2, trained=6),
    success_rate=0.3,
    invalid_share=0.1,
    turns_mean=20.0,
    verified=Verified(statuses={"done": 2}, verified=2, accepted=1, bonus_mean=0.25, continuations=4),
    outcomes=(Outcome(task_id="easy/0", successes=2, trajectories=8),),
    phases={"rollout": Phase(seconds=8.0, tokens=900)},
    published="v1",
    learner=metrics(1),
    alert=True,
)
BEFORE = Evaluated(
    step=0, policy_version="v0", successes=20, trajectories=100, failed_attempts=0, seconds=9.0, tokens=100
)
AFTER = replace(BEFORE, step=1, policy_version="v1", successes=40)


def test_curves_have_a_point_for_what_was_measured_and_none_for_what_was_not() -> None:
    measured = dict(scalars(RECORD))
    assert measured["credit/acceptance"] == 0.5 and measured["credit/eligible_share"] == 0.2
    assert measured["tokens/rollout"] == 900
    without = dict(scalars(replace(RECORD, verified=Verified(), learner=None)))
    assert not {"credit/acceptance", "credit/bonus_mean", "learner/loss"} & set(without)


def test_event_files_are_written_for_tensorboard(tmp_path: Path) -> None:
    board = TensorBoard(tmp_path)
    board.recorded(RECORD)
    board.evaluated(AFTER)
    board.close()
    (file,) = tmp_path.glob("events.out.tfevents.*")
    content = file.read_bytes()
    assert b"credit/bonus_mean" in content and b"evaluation/success_low" in content


def test_prometheus_reads_the_last_step_and_the_totals() -> None:
    registry = CollectorRegistry()
    watcher = TrainingMetrics(registry)
    watcher.recorded(RECORD)
    watcher.recorded(replace(RECORD, step=2, alert=False))
    watcher.evaluated(AFTER)
    page = generate_latest(registry).decode()
    assert "prover_train_step 2.0" in page
    assert 'prover_train_tokens_total{phase="rollout"} 1800.0' in page
    assert "prover_train_alerts_total 1.0" in page
    assert 'prover_train_evaluation_success{bound="rate"} 0.4' in page


def test_a_step_whose_mismatch_is_above_the_alert_is_said_on_the_terminal() -> None:
    console = Console(record=True, width=200)
    with Display(console, steps=3) as display:
        display.phase(1, "rollout", 1, 3)
        display.recorded(RECORD)
        display.evaluated(AFTER)
    said = console.export_text()
    assert "mismatch above the alert" in said and "40.0% (95% interval 30.9% to 49.8%" in said


def test_a_run_that_was_not_evaluated_says_so() -> None:
    console = Console(record=True, width=200)
    run = RunSummary(name="x", status="stopped", step=1, steps=3, success=None, first_success=None, reason="")
    console.print(runs_table([run]))
    assert "not measured" in console.export_text()


def test_a_report_has_success_before_and_after_and_a_plot(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.add(BEFORE)
    with pytest.raises(NothingMeasured, match="1 evaluations; expected one before and one after"):
        write_report(run, tmp_path / "report.json")
    run.add(RECORD)
    run.add(AFTER)
    write_report(run, tmp_path / "report.json")
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["success_before"], report["success_after"]) == (0.2, 0.4)
    assert report["success_before_interval"][0] < 0.2 < report["success_before_interval"][1]
    assert report["phases"]["rollout"] == {"seconds": 8.0, "tokens": 900}
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")
