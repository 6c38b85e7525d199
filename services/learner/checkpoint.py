"""Checkpoints: everything that the next step depends on.

A folder `step-00000012` holds trainable.safetensors (float32), trainer.pt (optimizer, schedule, random state) and
state.json. It appears whole or not at all; the last two are kept. A learner that is started again goes on from the
newest and reaches the same weights as one that was never stopped.
"""

import json
import random
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter
from safetensors.torch import load_file, save_file
from torch import Tensor

from prover.training import StepMetrics
from services.learner.folders import mend, write_file, write_folder

_KEPT = 2
_PUBLISHED = "published.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far training has come.

    Attributes:
        step: optimizer steps taken.
        start_version: of the weights that training started from.
        last: what the last step answered; a caller that missed the answer gets it again.
    """

    step: int
    start_version: str
    last: StepMetrics | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """The version that was published last ("" before the first), and its folder or that of the starting weights."""

    version: str
    path: str


class Checkpoints:
    """The checkpoints of one output folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def prepare(self) -> None:
        """Makes the folder, or mends what an interrupted process left in it. Before anything else."""
        self._folder.mkdir(parents=True, exist_ok=True)
        mend(self._folder)

    def newest(self) -> Path | None:
        """The one to go on from, or None before the first."""
        found = sorted(self._folder.glob("step-*"))
        return found[-1] if found else None

    def save(self, progress: Progress, *, trainable: Mapping[str, Tensor], trainer: Mapping[str, object]) -> Path:
        """Raises WriteFailed; the checkpoints that there are stay."""
        folder = self._folder / f"step-{progress.step:08d}"

        def fill(unfinished: Path) -> None:
            tensors = {name: tensor.detach().contiguous() for name, tensor in trainable.items()}
            save_file(tensors, str(unfinished / "trainable.safetensors"))
            _save_trainer({**trainer, "random": _random_state()}, unfinished / "trainer.pt")
            (unfinished / "state.json").write_text(json.dumps(asdict(progress)))

        write_folder(folder, fill)
        for old in sorted(self._folder.glob("step-*"))[:-_KEPT]:
            shutil.rmtree(old)
        return folder

    def published(self, otherwise: Publication) -> Publication:
        """What was published last."""
        path = self._folder / _PUBLISHED
        return TypeAdapter(Publication).validate_json(path.read_bytes()) if path.is_file() else otherwise

    def save_published(self, publication: Publication) -> None:
        """Raises WriteFailed."""
        write_file(self._folder / _PUBLISHED, json.dumps(asdict(publication)))


def read_progress(folder: Path) -> Progress:
    """Raises ValueError where the file is not what this release writes."""
    return TypeAdapter(Progress).validate_json((folder / "state.json").read_bytes())


def read_trainable(folder: Path) -> dict[str, Tensor]:
    """By parameter name, float32, on the CPU."""
    return load_file(str(folder / "trainable.safetensors"))


def read_trainer(folder: Path) -> dict[str, Any]:
    """What `save` was given as `trainer`; sets the random state back as it was. Nothing is executed from the file."""
    state = torch.load(folder / "trainer.pt", map_location="cpu", weights_only=True)
    saved = state.pop("random")
    version, numbers, gauss = saved["python"]
    random.setstate((version, tuple(numbers), gauss))
    torch.set_rng_state(saved["torch"])
    if torch.cuda.is_available() and saved["cuda"]:
        torch.cuda.set_rng_state_all(saved["cuda"])
    return state


def _random_state() -> dict[str, object]:
    version, numbers, gauss = random.getstate()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {"python": (version, list(numbers), gauss), "torch": torch.get_rng_state(), "cuda": cuda}


def _save_trainer(state: Mapping[str, object], path: Path) -> None:
    """torch reports a full disk as a RuntimeError of its writer, with an OSError behind it or not."""
    try:
        with path.open("wb") as file:
            torch.save(dict(state), file)
    except RuntimeError as error:
        raise OSError(f"{path.name}: {error}") from error
