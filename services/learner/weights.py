"""Weights folders, as the embedded engine and vLLM load them: model.safetensors, config.json, the tokenizer's files,
and prover.json with the version."""

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from services.learner.folders import write_folder

COPIED = (".json", ".txt", ".model", ".jinja")
_NUMBERED = re.compile(r"(.*?)(\d+)")


def read_manifest(folder: Path) -> dict[str, Any]:
    """prover.json. Raises ValueError naming the file where it is not there or names no version."""
    path = folder / "prover.json"
    try:
        manifest = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f'weights: {path}: {error}; expected {{"version": "v0", "model": "NAME"}}') from error
    if not isinstance(manifest, dict) or not isinstance(manifest.get("version"), str):
        raise ValueError(f'weights: {path}: was {manifest}; expected {{"version": "v0", "model": "NAME"}}')
    return manifest


def version_after(start: str, steps: int) -> str:
    """The version of the weights that `steps` optimizer steps make of version `start`.

    >>> version_after("v0", 3)
    'v3'
    >>> version_after("smollm2", 3)
    'smollm2+3'
    """
    match = _NUMBERED.fullmatch(start)
    if match:
        return f"{match[1]}{int(match[2]) + steps}"
    return f"{start}+{steps}" if steps else start


def write_weights(
    folder: Path, model: nn.Module, state: Mapping[str, Tensor], *, source: Path, version: str, dtype: torch.dtype
) -> None:
    """Writes a version: `state` is `model`'s, undivided. Everything but the numbers and the version is the source
    folder's own. Raises WriteFailed."""
    plain: Any = model
    # A tensor under two names is written under one, as save_pretrained does where both are the same memory.
    numbers = {name: tensor.to(dtype) for name, tensor in state.items() if name not in plain.all_tied_weights_keys}

    def fill(unfinished: Path) -> None:
        plain.save_pretrained(str(unfinished), state_dict=numbers, max_shard_size="1000GB")
        for path in source.iterdir():
            if path.is_file() and path.suffix in COPIED and not path.name.endswith(".index.json"):
                shutil.copyfile(path, unfinished / path.name)
        (unfinished / "prover.json").write_text(json.dumps({**read_manifest(source), "version": version}))

    write_folder(folder, fill)
