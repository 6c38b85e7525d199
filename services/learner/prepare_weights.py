"""Makes the folder that training and a vLLM start from, of a model from Hugging Face or of a folder that is here:

    python -m services.learner.prepare_weights Qwen/Qwen2.5-1.5B-Instruct /var/lib/prover/weights/base

prover.json comes last: where it is, the folder is whole. Interrupted, the same command goes on with the download.
HF_TOKEN, HF_TOKEN_PATH, HF_ENDPOINT and HF_HOME mean what huggingface_hub says they mean.
"""

import json
import shutil
from pathlib import Path
from typing import Annotated

import typer
from huggingface_hub import snapshot_download

from services.learner.folders import settle, write_file
from services.learner.model import read_config
from services.learner.weights import COPIED, read_manifest

_WANTED = (".safetensors", *COPIED)


def prepare_weights(model: str, folder: Path, *, revision: str = "main") -> bool:
    """Fills the folder; False where it was whole already. `model`: a repository's name, or a folder. `revision`: of a
    repository; a branch, tag or commit.

    Raises ValueError where the folder holds another model, or the model lacks what is needed, and OSError
    (huggingface_hub's errors are OSErrors) where it cannot be had.
    """
    local = Path(model).is_dir()
    # The name is the version's, so that checkpoints of one model are never taken for another's.
    name = Path(model).resolve().name if local else model.rpartition("/")[2]
    manifest = {"version": f"{name}-v0", "model": name if local else model, "revision": "" if local else revision}
    if (folder / "prover.json").exists():
        found = read_manifest(folder)
        if found != manifest:
            raise ValueError(f"folder: {folder} holds {found}; expected {manifest}, or a folder that is not there yet")
        return False
    folder.mkdir(parents=True, exist_ok=True)
    if local:
        for path in Path(model).iterdir():
            if path.suffix in _WANTED and path.name != "prover.json":
                shutil.copyfile(path, folder / path.name)
    else:
        patterns = [f"*{ending}" for ending in _WANTED]
        snapshot_download(model, revision=revision, local_dir=folder, allow_patterns=patterns, ignore_patterns=["*/*"])
    _check(folder)
    settle(folder)
    write_file(folder / "prover.json", json.dumps(manifest))
    return True


def _check(folder: Path) -> None:
    read_config(folder)
    if not any(folder.glob("*.safetensors")):
        raise ValueError(f"weights: {folder}: no safetensors; expected a model whose weights are stored so")
    if not (folder / "tokenizer.json").is_file():
        raise ValueError(f"weights: {folder / 'tokenizer.json'}: was not there; expected a fast tokenizer's file")


def main(
    model: Annotated[str, typer.Argument(help="A repository's name on Hugging Face, or a folder.")],
    folder: Annotated[Path, typer.Argument(help="What becomes of it.")],
    revision: Annotated[str, typer.Option(help="Branch, tag or commit; a commit never changes.")] = "main",
) -> None:
    """Prepares the weights that training and a vLLM start from."""
    try:
        made = prepare_weights(model, folder, revision=revision)
    except (OSError, ValueError) as error:
        typer.echo(f"prepare_weights: {error}", err=True)
        raise typer.Exit(1) from error
    typer.echo(f"{folder} holds {model}" + ("" if made else " already"))


if __name__ == "__main__":
    typer.run(main)
