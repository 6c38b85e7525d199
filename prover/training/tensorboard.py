"""A run's curves for TensorBoard."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from prover.training.records import Evaluated, StepRecord


class TensorBoardMissing(ImportError):
    """The package that writes the event files is not installed."""


class TensorBoard:
    """An `Observer` that writes event files below `folder`, for `tensorboard --logdir`."""

    def __init__(self, folder: Path) -> None:
        """Raises TensorBoardMissing."""
        try:
            package = import_module("tensorboardX")
        except ImportError as error:
            raise TensorBoardMissing("tensorboardX is not installed: pip install 'prover[train]'") from error
        # Written by a thread of its own; what it holds reaches the disk within these seconds, or with `close`.
        self._writer: Any = package.SummaryWriter(str(folder), flush_secs=5)

    def close(self) -> None:
        """Writes what is still held."""
        self._writer.close()

    def phase(self, step: int, name: str, done: int, total: int) -> None:
        """Only whole steps are written."""

    def recorded(self, record: StepRecord) -> None:
        """One point a curve; what was not measured has none."""
        for name, value in scalars(record):
            self._writer.add_scalar(name, value, record.step)

    def evaluated(self, evaluated: Evaluated) -> None:
        """The rate and its interval."""
        for name, value in evaluation_scalars(evaluated):
            self._writer.add_scalar(name, value, evaluated.step)


def evaluation_scalars(evaluated: Evaluated) -> Iterator[tuple[str, float]]:
    """The success rate on held-out tasks and the ends of its interval, under the names of their curves."""
    low, high = evaluated.interval
    for name, value in (("success", evaluated.success), ("success_low", low), ("success_high", high)):
        yield f"evaluation/{name}", value


def scalars(record: StepRecord) -> Iterator[tuple[str, float]]:
    """Every measured number of a record under the name of its curve."""
    verified, groups = record.verified, record.groups
    measured: dict[str, float | None] = {
        "rollout/success_rate": record.success_rate,
        "rollout/invalid_share": record.invalid_share,
        "rollout/turns_mean": record.turns_mean,
        "rollout/without_signal_share": groups.without_signal / groups.sampled if groups.sampled else None,
        "credit/eligible_share": record.eligible_share,
        "credit/acceptance": verified.acceptance,
        "credit/bonus_mean": verified.bonus_mean,
        "credit/continuations": verified.continuations,
        "credit/trained_continuations": verified.trained_continuations,
        "publishing/probe_difference": record.probe_difference,
        "loop/lag": record.lag,
        "loop/alert": record.alert,
    }
    for name, phase in record.phases.items():
        measured |= {f"seconds/{name}": phase.seconds, f"tokens/{name}": phase.tokens}
    if record.learner is not None:
        for name in ("loss", "gradient_norm", "clip_fraction", "engine_kl", "entropy", "reference_kl", "padding"):
            measured[f"learner/{name}"] = getattr(record.learner, name)
    yield from ((name, float(value)) for name, value in measured.items() if value is not None)
