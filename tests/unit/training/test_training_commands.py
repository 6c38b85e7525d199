"""What `prover runs` says."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from prover.cli import app
from prover.training.records import Evaluated
from prover.training.runs import State, open_run
from tests.unit.training.fakes import experiment


def runs(folder: Path) -> Result:
    return CliRunner().invoke(app, ["runs", "--runs-dir", str(folder)], env={"COLUMNS": "200"})


def evaluated(step: int, successes: int) -> Evaluated:
    return Evaluated(
        step=step,
        policy_version=f"v{step}",
        successes=successes,
        trajectories=100,
        failed_attempts=0,
        seconds=1.0,
        tokens=10,
    )


def lines(result: Result) -> list[list[str]]:
    """Cells of the table, without its frame."""
    rows = [line for line in result.stdout.splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in row.strip("│").split("│")] for row in rows]


def test_runs_are_listed_with_their_status_step_and_success(tmp_path: Path) -> None:
    config = tmp_path / "given.toml"
    config.write_text('name = "tiny"\nsteps = 3\n')
    with open_run(tmp_path / "done", config, experiment()) as run:
        run.save(State(step=3, learner_step=3, status="finished"))
        run.add(evaluated(0, 20))
        run.add(evaluated(3, 40))
    with open_run(tmp_path / "broke", config, experiment()) as run:
        run.save(State(step=1, learner_step=1, status="failed", reason="GatewayUnreachable: nobody there"))
    with open_run(tmp_path / "killed", config, experiment()) as run:
        run.save(State(step=2, learner_step=2))
    with open_run(tmp_path / "now", config, experiment()) as run:
        run.save(State(step=2, learner_step=2))
        result = runs(tmp_path)
    assert result.exit_code == 0
    assert lines(result) == [
        ["broke", "failed: GatewayUnreachable: nobody there", "1 of 3", "not measured", "not measured"],
        ["done", "finished", "3 of 3", "40.0% (30.9% to 49.8%, step 3)", "20.0% (13.3% to 28.9%, step 0)"],
        ["killed", "stopped", "2 of 3", "not measured", "not measured"],
        ["now", "running", "2 of 3", "not measured", "not measured"],
    ]


def test_a_folder_without_runs_says_how_to_start_one(tmp_path: Path) -> None:
    result = runs(tmp_path)
    assert result.exit_code == 1
    assert f"no runs in {tmp_path}; start one with: prover train configs/train-demo.toml" in result.stderr


@pytest.mark.parametrize("content", ["steps = ", 'name = "x"'])
def test_a_run_that_cannot_be_read_is_an_error_and_no_traceback(tmp_path: Path, content: str) -> None:
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn/experiment.toml").write_text(content)
    result = runs(tmp_path)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"prover: {tmp_path / 'torn/experiment.toml'}: ")
