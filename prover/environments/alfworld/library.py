"""Finds the game that a task means, in the data folder or from the generator, and keeps parsed games for the next time.

A game never changes once it is read, so every environment of a process shares the parsed ones.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import cast

from prover.environments.alfworld.game import Game, read_game
from prover.environments.alfworld.problem import UnknownGameError
from prover.environments.alfworld.wording import RELEASES, Release
from prover.trajectory import Task

GENERATED = "generated"
"""The first part of the ids of tasks that are made rather than read: generated/TYPE/SEED."""

GAME_FILE = "game.tw-pddl"
_GENERATOR = "prover.environments.alfworld.generate"
_KEPT_GAMES = 256


def find_game(task: Task, *, data_dir: Path | None) -> Game:
    """The game of a task.

    Raises:
        ValueError: task.task_id names no game, or task.options says something that is not known.
    """
    release, difficulty = _read_options(task)
    if task.task_id.split("/")[0] == GENERATED:
        task_type, seed = _generated(task.task_id)
        return _made_game(task_type, seed, release or "current", json.dumps(difficulty, sort_keys=True))
    if difficulty:
        raise ValueError(f"task.options: difficulty: was {difficulty}, but {task.task_id!r} is read, not generated")
    path = game_file(task.task_id, data_dir=data_dir)
    try:
        return _read_file(path, path.stat().st_mtime_ns, release)
    except UnknownGameError as error:
        raise UnknownGameError(f"task.task_id: {task.task_id}: {error}") from error


def game_file(task_id: str, *, data_dir: Path | None) -> Path:
    """The file of a task that is not generated. ValueError where there is none below the data folder."""
    if data_dir is None:
        raise ValueError(
            f"task.task_id: was {task_id!r}, but there is no data folder; expected $ALFWORLD_DATA to name one, "
            f"or a task id such as {GENERATED}/pick_and_place_simple/7"
        )
    parts = task_id.split("/")
    if not all(parts) or {".", ".."} & set(parts) or "\0" in task_id:
        raise ValueError(f"task.task_id: was {task_id!r}; expected the path of a game's folder below {data_dir.name}")
    path = data_dir.joinpath(*parts, GAME_FILE)
    try:
        found = path.is_file()
    except OSError as error:
        raise ValueError(f"task.task_id: was {task_id[:80]!r}...: {error.strerror}") from error
    if not found:
        raise ValueError(f"task.task_id: was {task_id!r}; expected a folder below {data_dir.name} with a {GAME_FILE}")
    return path


def _read_options(task: Task) -> tuple[Release | None, dict[str, object]]:
    unknown = sorted(set(task.options) - {"release", "difficulty"})
    if unknown:
        raise ValueError(f"task.options: {', '.join(unknown)}: expected release or difficulty")
    release = task.options.get("release")
    if release is not None and release not in RELEASES:
        raise ValueError(f"task.options: release: was {release!r}; expected one of {', '.join(RELEASES)}")
    difficulty = task.options.get("difficulty", {})
    if not isinstance(difficulty, dict):
        raise ValueError(f"task.options: difficulty: was {difficulty!r}; expected an object, such as {{'hidden': 0.5}}")
    return release, cast("dict[str, object]", difficulty)


def _generated(task_id: str) -> tuple[str, int]:
    parts = task_id.split("/")
    if len(parts) != 3 or not parts[2].isdecimal():
        raise ValueError(f"task.task_id: was {task_id!r}; expected {GENERATED}/TYPE/SEED, SEED a whole number")
    return parts[1], int(parts[2])


@lru_cache(maxsize=_KEPT_GAMES)
def _read_file(path: Path, modified_ns: int, release: Release | None) -> Game:
    content = cast("object", json.loads(path.read_bytes()))
    if not isinstance(content, dict):
        raise UnknownGameError(f"was a JSON {type(content).__name__}; expected an object")
    return read_game(cast("Mapping[str, object]", content), release=release)


@lru_cache(maxsize=_KEPT_GAMES)
def _made_game(task_type: str, seed: int, release: Release, difficulty: str) -> Game:
    generator = import_module(_GENERATOR)
    try:
        made: Mapping[str, object] = generator.generate(
            task_type, seed, release=release, difficulty=generator.Difficulty(**json.loads(difficulty))
        )
    except (TypeError, ValueError) as error:
        raise ValueError(f"task.task_id: {GENERATED}/{task_type}/{seed}, difficulty {difficulty}: {error}") from error
    return read_game(made)
