"""Folders that appear whole or not at all.

A folder is written under a name of its own, brought to the disk, and renamed. Whoever finds it under its real name
finds all of it, also after a `kill -9` or a power cut; what is left of an interrupted one is removed at the next start.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from safetensors import SafetensorError

_UNFINISHED = ".unfinished-"


class WriteFailed(Exception):
    """A folder could not be written. What stood there before still does. Says what to do."""


def write_folder(folder: Path, fill: Callable[[Path], None]) -> None:
    """Has `fill` write into a fresh folder, and puts it in the place of `folder`. Raises WriteFailed."""
    unfinished = folder.with_name(f"{_UNFINISHED}{folder.name}")
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        fill(unfinished)
        for path in (*unfinished.iterdir(), unfinished):
            _to_disk(path)
        if folder.exists():
            shutil.rmtree(folder)
        unfinished.rename(folder)
        _to_disk(folder.parent)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise WriteFailed(f"{folder}: {error}. {_free(folder)}; make room there, then try again") from error


def write_file(path: Path, text: str) -> None:
    """The same for one file. Raises WriteFailed."""
    unfinished = path.with_name(f"{_UNFINISHED}{path.name}")
    try:
        unfinished.write_text(text)
        _to_disk(unfinished)
        unfinished.replace(path)
        _to_disk(path.parent)
    except OSError as error:
        raise WriteFailed(f"{path}: {error}. {_free(path)}; make room there, then try again") from error


def remove_oldest(parent: Path, *, kept: int, spared: Path) -> None:
    """All but the `kept` folders that were written last, and never `spared`."""
    written = sorted(
        (path for path in parent.iterdir() if path.is_dir() and not path.name.startswith(_UNFINISHED)),
        key=lambda path: path.stat().st_mtime_ns,
    )
    for path in written[:-kept]:
        if path != spared:
            shutil.rmtree(path)


def remove_unfinished(parent: Path) -> None:
    """What an interrupted process left behind."""
    for path in parent.glob(f"{_UNFINISHED}*"):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _free(folder: Path) -> str:
    existing = next((path for path in folder.parents if path.exists()), Path("/"))
    return f"{shutil.disk_usage(existing).free / 2**20:.0f} MiB are free on its disk"
