"""A run's curves for trackio or Weights & Biases, whose `init`, `log` and `finish` are alike."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from prover.training.records import Evaluated, StepRecord
from prover.training.tensorboard import evaluation_scalars, scalars

TRACKERS: Mapping[str, tuple[str, ...]] = {"trackio": ("name",), "wandb": ("name", "id")}
"""Package -> the arguments by which it finds a run that is gone on with. Where curves go, and with whose key, are the
package's own settings (TRACKIO_SPACE_ID, WANDB_MODE, WANDB_API_KEY, ...)."""


class TrackerMissing(ImportError):
    """The tracker's package is not installed."""


class Tracker:
    """An `Observer` that logs each step and each evaluation to a run of that name in the project "prover"."""

    def __init__(self, package: str, *, name: str, config: Mapping[str, object]) -> None:
        """Raises ValueError for an unknown package, TrackerMissing for one that is not there."""
        if package not in TRACKERS:
            raise ValueError(f"tracker: was {package!r}; expected one of {', '.join(TRACKERS)}")
        try:
            library: Any = import_module(package)
        except ImportError as error:
            raise TrackerMissing(f"{package} is not installed: pip install 'prover[{package}]'") from error
        named = dict.fromkeys(TRACKERS[package], name)
        self._run: Any = library.init(project="prover", config=dict(config), resume="allow", **named)

    def close(self) -> None:
        """Sends what is still held."""
        self._run.finish()

    def phase(self, step: int, name: str, done: int, total: int) -> None:
        """Only whole steps are logged."""

    def recorded(self, record: StepRecord) -> None:
        """One point a curve; what was not measured has none."""
        self._run.log(dict(scalars(record)), step=record.step)

    def evaluated(self, evaluated: Evaluated) -> None:
        """The rate and its interval."""
        self._run.log(dict(evaluation_scalars(evaluated)), step=evaluated.step)
