"""The folder of a run: what is needed to go on after a `kill -9`, and what is there to read afterwards.

experiment.toml     as it was given
state.json          how far the run is: the truth. Replaced as a whole
records.jsonl       a line a step; lines beyond the state are cut off when the run goes on
evaluations.jsonl   a line an evaluation
services/           data, logs, checkpoints and weights of services that were started here
tensorboard/
"""

import fcntl
import os
import shutil
import tomllib
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import TypeAdapter

from prover.training.curriculum import Record
from prover.training.experiment import Experiment, read_experiment
from prover.training.records import Evaluated, StepRecord

_T = TypeVar("_T", StepRecord, Evaluated)
_RECORD = TypeAdapter(StepRecord)
_EVALUATED = TypeAdapter(Evaluated)


class RunRefused(Exception):
    """A run that may not go on here. Says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """How far a run is.

    Attributes:
        step: steps of the loop that are recorded.
        learner_step: optimizer steps of the learner after them.
        pending: the record of the step after, as far as it was known when the learner was asked to take it.
        records: of tasks and families, for the curriculum, after these steps: a step that is taken again draws the same
            tasks again.
        status: "running" is also what a killed run says; whether somebody holds its lock tells the two apart.
        reason: why it failed.
    """

    step: int = 0
    learner_step: int = 0
    pending: StepRecord | None = None
    records: Mapping[str, Record] = field(default_factory=dict[str, Record])
    status: Literal["running", "finished", "failed"] = "running"
    reason: str = ""


_STATE = TypeAdapter(State)


class Run:
    """One run's folder, held by one process at a time: see `open_run`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._state_path = folder / "state.json"

    @property
    def state(self) -> State | None:
        """None before anything was saved. ValueError where the file is not what this release writes."""
        return _STATE.validate_json(self._state_path.read_bytes()) if self._state_path.is_file() else None

    def save(self, state: State) -> None:
        """Returns once it is on the disk."""
        _replace(self._state_path, _STATE.dump_json(state, indent=1))

    def add(self, entry: StepRecord | Evaluated) -> None:
        """Appends a record or an evaluation."""
        if isinstance(entry, StepRecord):
            self._append("records.jsonl", _RECORD.dump_json(entry))
        else:
            self._append("evaluations.jsonl", _EVALUATED.dump_json(entry))

    def records(self) -> list[StepRecord]:
        """In order. A last line that was cut short by a kill is left out."""
        return _read_lines(self.folder / "records.jsonl", _RECORD)

    def evaluations(self) -> list[Evaluated]:
        """The same."""
        return _read_lines(self.folder / "evaluations.jsonl", _EVALUATED)

    def cut(self, step: int) -> None:
        """Takes back what was written of steps after `step`."""
        records = [_RECORD.dump_json(record) for record in self.records() if record.step <= step]
        evaluations = [_EVALUATED.dump_json(each) for each in self.evaluations() if each.step <= step]
        _replace(self.folder / "records.jsonl", b"".join(line + b"\n" for line in records))
        _replace(self.folder / "evaluations.jsonl", b"".join(line + b"\n" for line in evaluations))

    def _append(self, name: str, line: bytes) -> None:
        with (self.folder / name).open("ab") as file:
            file.write(line + b"\n")
            file.flush()
            os.fsync(file.fileno())


@contextmanager
def open_run(folder: Path, config: Path, experiment: Experiment) -> Generator[Run]:
    """The run in `folder`, new or to be gone on with. Raises RunRefused where it is another experiment's or in use.

    More steps and other evaluations are fine; anything else that changed is another experiment.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _lock(folder) as held:
        if not held:
            raise RunRefused(f"{folder}: another process is at this run; wait for it, or choose another --name")
        kept = folder / "experiment.toml"
        if kept.is_file():
            changed = _differences(read_experiment(kept), experiment)
            if changed:
                raise RunRefused(
                    f"{folder}: is a run of another experiment ({', '.join(changed)} differ); choose another --name, "
                    "or remove the folder"
                )
        copy = kept.with_suffix(".new")
        shutil.copyfile(config, copy)
        copy.replace(kept)
        run = Run(folder)
        run.cut((run.state or State()).step)
        yield run


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """A line of `prover runs`. `status` is "stopped" where nobody is at a run that has not ended."""

    name: str
    status: str
    step: int
    steps: int
    success: Evaluated | None
    first_success: Evaluated | None
    reason: str


def list_runs(runs_dir: Path) -> list[RunSummary]:
    """Every run of a folder, by name. ValueError where one cannot be read."""
    folders = [path.parent for path in sorted(runs_dir.glob("*/experiment.toml"))]
    return [_summary(folder) for folder in folders]


def failed(state: State, error: BaseException) -> State:
    """The state of a run that ended with an error."""
    return replace(state, status="failed", reason=f"{type(error).__name__}: {error}"[:2000])


def _summary(folder: Path) -> RunSummary:
    run = Run(folder)
    state = run.state or State()
    evaluations = run.evaluations()
    with _lock(folder) as nobody_else:
        status = "stopped" if state.status == "running" and nobody_else else state.status
    return RunSummary(
        name=folder.name,
        status="running" if not nobody_else else status,
        step=state.step,
        steps=_steps(folder / "experiment.toml"),
        success=evaluations[-1] if evaluations else None,
        first_success=evaluations[0] if evaluations else None,
        reason=state.reason,
    )


def _steps(kept: Path) -> int:
    """Of an experiment that was found good when its run began, perhaps by a release that let more pass."""
    try:
        steps = tomllib.loads(kept.read_text()).get("steps")
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{kept}: {error}") from error
    if not isinstance(steps, int):
        raise ValueError(f"{kept}: steps: was {steps!r}; expected a number")
    return steps


def _differences(kept: Experiment, given: Experiment) -> Sequence[str]:
    free = {"name", "steps", "evaluation", "services"}
    one, other = kept.model_dump(exclude=free), given.model_dump(exclude=free)
    return [key for key in one if one[key] != other[key]]


@contextmanager
def _lock(folder: Path) -> Generator[bool]:
    """Whether nobody else holds it. Ends with the process, however it ends."""
    with (folder / ".lock").open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def _read_lines(path: Path, adapter: TypeAdapter[_T]) -> list[_T]:
    if not path.is_file():
        return []
    *lines, _cut_short = path.read_bytes().split(b"\n")
    return [adapter.validate_json(line) for line in lines]


def _replace(path: Path, content: bytes) -> None:
    new = path.with_name(f".{path.name}.new")
    with new.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def as_json(entry: StepRecord | Evaluated) -> dict[str, Any]:
    """The same as in the files."""
    adapter: TypeAdapter[Any] = _RECORD if isinstance(entry, StepRecord) else _EVALUATED
    return adapter.dump_python(entry, mode="json")
