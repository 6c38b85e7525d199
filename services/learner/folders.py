"""Folders that appear whole or not at all.

A folder is written under a name of its own, brought to the disk, and renamed. Whoever finds it under its real name
finds all of it, also after a `kill -9` or a power cut. A folder that stood there before may be the one that an engine
serves: it is moved aside for its follower and removed once that is in place. What an interrupted process left is mended
at the next start.
"""

import filecmp
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from safetensors import SafetensorError

_UNFINISHED = ".unfinished-"
_REPLACED = ".replaced-"


class WriteFailed(Exception):
    """A folder could not be written. What stood there before still does. Says what to do."""


def write_folder(folder: Path, fill: Callable[[Path], None]) -> None:
    """Has `fill` write into a fresh folder, and puts it in the place of `folder`. One that holds the very same files
    is left where it is. Raises WriteFailed."""
    unfinished = folder.with_name(f"{_UNFINISHED}{folder.name}")
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        fill(unfinished)
        settle(unfinished)
        _put_in_place(unfinished, folder)
        _to_disk(folder.parent)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise WriteFailed(f"{folder}: {error}. {_free(folder)}; make room there, then try again") from error


def settle(folder: Path) -> None:
    """Brings the files of a folder to the disk, for every user to read. Raises OSError."""
    for path in folder.iterdir():
        if path.is_file():
            path.chmod(0o644)  # safetensors makes files that its own user alone reads; the engine is another
            _to_disk(path)
    _to_disk(folder)


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
        (path for path in parent.iterdir() if path.is_dir() and not path.name.startswith((_UNFINISHED, _REPLACED))),
        key=lambda path: path.stat().st_mtime_ns,
    )
    for path in written[:-kept]:
        if path != spared:
            shutil.rmtree(path)


def mend(parent: Path) -> None:
    """After an interrupted process: what has no follower goes back to its name, and what is half written goes."""
    for path in parent.glob(f"{_REPLACED}*"):
        folder = path.with_name(path.name.removeprefix(_REPLACED))
        if folder.exists():
            shutil.rmtree(path)
        else:
            path.rename(folder)
    for path in parent.glob(f"{_UNFINISHED}*"):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _put_in_place(unfinished: Path, folder: Path) -> None:
    if not folder.exists():
        unfinished.rename(folder)
        return
    if _hold_the_same(unfinished, folder):
        shutil.rmtree(unfinished)
        os.utime(folder)  # it counts as written last: see remove_oldest
        return
    replaced = folder.with_name(f"{_REPLACED}{folder.name}")
    shutil.rmtree(replaced, ignore_errors=True)
    folder.rename(replaced)
    try:
        unfinished.rename(folder)
    except OSError:
        replaced.rename(folder)
        raise
    shutil.rmtree(replaced, ignore_errors=True)


def _hold_the_same(first: Path, second: Path) -> bool:
    names = sorted(path.name for path in first.iterdir())
    if names != sorted(path.name for path in second.iterdir()):
        return False
    return all(filecmp.cmp(first / name, second / name, shallow=False) for name in names)


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _free(folder: Path) -> str:
    existing = next((path for path in folder.parents if path.exists()), Path("/"))
    return f"{shutil.disk_usage(existing).free / 2**20:.0f} MiB are free on its disk"
