"""A run on the terminal: a bar for the phase under way, a line for each step and each evaluation."""

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from prover.training.records import Evaluated, StepRecord
from prover.training.runs import RunSummary


class Display:
    """An `Observer` for people. Use it in a `with` block."""

    def __init__(self, console: Console, *, steps: int) -> None:
        self._steps = steps
        self._console = console
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self._progress = Progress(*columns, TimeElapsedColumn(), console=console, transient=True)
        self._bar = self._progress.add_task("starting", total=None)
        self._shown = ""

    def __enter__(self) -> "Display":
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def phase(self, step: int, name: str, done: int, total: int) -> None:
        """Moves the bar."""
        description = f"step {step} of {self._steps}: {name}"
        if description != self._shown:
            self._progress.reset(self._bar)
            self._shown = description
        self._progress.update(self._bar, description=description, completed=min(done, total), total=total)

    def recorded(self, record: StepRecord) -> None:
        """A line."""
        parts = [
            f"step {record.step}",
            _said("success", record.success_rate),
            f"groups {record.groups.trained} of {record.groups.sampled}",
            f"verified {record.verified.verified}",
            _said("bonus", record.verified.bonus_mean),
            _said("mismatch", record.learner and record.learner.engine_kl, " nats"),
            f"{record.seconds:.0f} s",
            f"policy {record.published}" if record.published else "nothing trained",
        ]
        alert = " [red]mismatch above the alert[/red]" if record.alert else ""
        self._console.print("  ".join(parts) + alert, highlight=False)

    def evaluated(self, evaluated: Evaluated) -> None:
        """A line."""
        low, high = evaluated.interval
        self._console.print(
            f"[bold]held-out success after {evaluated.step} steps: {evaluated.success:.1%}[/bold] "
            f"(95% interval {low:.1%} to {high:.1%}, {evaluated.trajectories} tasks, {evaluated.seconds:.0f} s)",
            highlight=False,
        )


def runs_table(runs: list[RunSummary]) -> Table:
    """What `prover runs` prints."""
    table = Table("run", "status", "step", "held-out success", "at the start")
    for run in runs:
        status = f"{run.status}: {run.reason}" if run.reason else run.status
        table.add_row(run.name, status, f"{run.step} of {run.steps}", _rate(run.success), _rate(run.first_success))
    return table


def _rate(evaluated: Evaluated | None) -> str:
    if evaluated is None:
        return "not measured"
    low, high = evaluated.interval
    return f"{evaluated.success:.1%} ({low:.1%} to {high:.1%}, step {evaluated.step})"


def _said(name: str, value: float | None, unit: str = "") -> str:
    return f"{name} -" if value is None else f"{name} {value:.3g}{unit}"
