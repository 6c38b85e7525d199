"""Weights folders, as the embedded engine and vLLM load them: model.safetensors, config.json, the tokenizer's files,
and prover.json with the version."""

import copy
import json
import re
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import nn

from services.learner.folders import write_folder

_COPIED = (".json", ".txt", ".model", ".jinja")
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


def write_weights(folder: Path, model: nn.Module, *, source: Path, version: str, dtype: torch.dtype) -> None:
    """Writes a version. Everything but the numbers and the version is the source folder's own. Raises WriteFailed."""
    plain: Any = _without_adapters(model)
    state = {name: tensor.detach().to(dtype) for name, tensor in plain.state_dict().items()}

    def fill(unfinished: Path) -> None:
        plain.save_pretrained(str(unfinished), state_dict=state, max_shard_size="1000GB")
        for path in source.iterdir():
            if path.is_file() and path.suffix in _COPIED and not path.name.endswith(".index.json"):
                shutil.copyfile(path, unfinished / path.name)
        (unfinished / "prover.json").write_text(json.dumps({**read_manifest(source), "version": version}))

    write_folder(folder, fill)


def _without_adapters(model: nn.Module) -> nn.Module:
    merge = getattr(model, "merge_and_unload", None)
    if merge is None:
        return model
    duplicate: Any = copy.deepcopy(model)
    return duplicate.merge_and_unload()
