"""What came of a run, as a JSON file and a plot beside it."""

import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from prover.training.records import Evaluated, StepRecord
from prover.training.runs import Run


class NothingMeasured(Exception):
    """A report needs an evaluation before and one after the training."""


def write_report(run: Run, path: Path) -> None:
    """Writes `path` (JSON) and, where matplotlib is installed, the plot beside it under the same name (.png).

    Raises NothingMeasured.
    """
    evaluations, records = run.evaluations(), run.records()
    if len(evaluations) < 2:
        raise NothingMeasured(f"{run.folder}: {len(evaluations)} evaluations; expected one before and one after")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(summary(evaluations, records), indent=2) + "\n")
    plot(evaluations, records, path.with_suffix(".png"))


def summary(evaluations: Sequence[Evaluated], records: Sequence[StepRecord]) -> dict[str, Any]:
    """First and last held-out success with 95% intervals, the curve between them, and what it cost."""
    first, last = evaluations[0], evaluations[-1]
    phases = sorted({name for record in records for name in record.phases})
    spent = {
        name: {
            "seconds": round(sum(record.phases[name].seconds for record in records if name in record.phases), 1),
            "tokens": sum(record.phases[name].tokens for record in records if name in record.phases),
        }
        for name in phases
    }
    spent["evaluation"] = {
        "seconds": round(sum(each.seconds for each in evaluations), 1),
        "tokens": sum(each.tokens for each in evaluations),
    }
    return {
        "success_before": first.success,
        "success_before_interval": list(first.interval),
        "success_after": last.success,
        "success_after_interval": list(last.interval),
        "gain": last.success - first.success,
        "held_out_tasks": last.trajectories,
        "steps": last.step,
        "seconds": round(sum(record.seconds for record in records) + sum(each.seconds for each in evaluations), 1),
        "phases": spent,
        "curve": [
            {"step": each.step, "success": each.success, "interval": list(each.interval)} for each in evaluations
        ],
        "training_curve": [{"step": record.step, "success": record.success_rate} for record in records],
    }


def plot(evaluations: Sequence[Evaluated], records: Sequence[StepRecord], path: Path) -> None:
    """Held-out success with its intervals, and that of the sampled batches. Needs the extra `plot`."""
    figures: Any = import_module("matplotlib.figure")
    figure = figures.Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    steps = [each.step for each in evaluations]
    rates = [each.success for each in evaluations]
    below = [each.success - each.interval[0] for each in evaluations]
    above = [each.interval[1] - each.success for each in evaluations]
    measured = [(record.step, record.success_rate) for record in records if record.success_rate is not None]
    axes.plot(
        *zip(*measured, strict=True), color="0.7", linewidth=1, label="sampled for training"
    ) if measured else None
    axes.errorbar(
        steps, rates, yerr=[below, above], marker="o", capsize=3, color="tab:blue", label="held-out games (95%)"
    )
    axes.set(xlabel="step", ylabel="success rate", ylim=(0, 1), title="Success during training")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=150)
