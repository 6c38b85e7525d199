"""ALFWorld through its stock engine: textworld and the alfworld package's own wrapper.

The yardstick of our engine, and the way to play domains that ours does not know. A step takes tens of milliseconds, a
load about a second. The engine keeps the game that is in play in one C library of which a process has one copy for each
game, and has no snapshots; `replayed_stock` adds restore by replay. Needs the extra `stock`.
"""

import json
from collections.abc import Callable, Mapping
from hashlib import blake2b
from os import environ
from pathlib import Path
from typing import Any, cast

from prover.environments.alfworld.generate import Difficulty, generate, release_texts
from prover.environments.alfworld.library import GENERATED, game_file
from prover.environments.alfworld.release import identify
from prover.environments.alfworld.wording import RELEASES, Release
from prover.environments.environment import Observation, Step
from prover.environments.replay import Replayed
from prover.trajectory import Task


class StockAlfworld:
    """The stock engine behind our interface. Task ids and options are those of `AlfworldEnvironment`."""

    deterministic = True
    can_snapshot = False

    def __init__(self, *, data_dir: str | Path | None = None, max_turns: int | None = None) -> None:
        """`data_dir` and `max_turns` as for `AlfworldEnvironment`. ImportError without the extra `stock`."""
        if max_turns is not None and max_turns < 1:
            raise ValueError(f"max_turns: was {max_turns}; expected 1 or more, or None")
        self._make_engine = _engine_maker()
        self._data_dir = _data_folder(data_dir)
        self._max_turns = max_turns
        # Untyped third parties: the engine, and the dictionary of what it says of the present state.
        self._engine: Any = None
        self._state: Any = None
        self._turns = 0

    def reset(self, task: Task) -> Observation:
        """Loads the game and starts it. ValueError where the task names none."""
        game = _read(task, data_dir=self._data_dir)
        engine = self._make_engine()
        engine.load(game)
        self._engine, self._state, self._turns = engine, engine.reset(), 0
        return Observation(text=str(self._state.feedback))

    def step(self, action: str) -> Step:
        """Gives one command. RuntimeError before `reset` and after the end."""
        valid = action.strip() in self.admissible()
        if self._done():
            raise RuntimeError("step: the episode is done; expected reset first")
        self._state, _, _ = self._engine.step(action)
        self._turns += 1
        won = bool(self._state["won"])
        observation = str(self._state.feedback)
        return Step(observation=observation, reward=float(won), done=self._done(), success=won, valid=valid)

    def admissible(self) -> list[str]:
        """The commands that would be accepted now, sorted."""
        return [str(command) for command in self._playing()["admissible_commands"]]

    def snapshot(self) -> bytes:
        """NotImplementedError: see `replayed_stock`."""
        raise NotImplementedError("the stock engine has no snapshots; wrap it in Replayed")

    def restore(self, state: bytes) -> None:
        """NotImplementedError: see `replayed_stock`."""
        raise NotImplementedError("the stock engine has no snapshots; wrap it in Replayed")

    def digest(self) -> str:
        """ "stock-..." and a hash of the facts that hold. Not comparable with our engine's."""
        facts = "\n".join(sorted(str(fact) for fact in self._playing()["_facts"]))
        return f"stock-{blake2b(facts.encode(), digest_size=16).hexdigest()}"

    def _playing(self) -> Mapping[str, Any]:
        if self._state is None:
            raise RuntimeError("no game is in play; expected reset first")
        return cast("Mapping[str, Any]", self._state)

    def _done(self) -> bool:
        return bool(self._playing()["won"]) or (self._max_turns is not None and self._turns >= self._max_turns)


def replayed_stock(*, data_dir: str | Path | None = None, max_turns: int | None = None) -> Replayed:
    """The stock engine with restore by replay: the environment "alfworld-stock"."""
    return Replayed(StockAlfworld(data_dir=data_dir, max_turns=max_turns))


def _engine_maker() -> Callable[[], Any]:
    """Imports the stock engine, which takes a second or two, and says how one is made."""
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
    from textworld import EnvInfos
    from textworld.envs.pddl.pddl import PddlEnv

    def make() -> Any:
        return AlfredDemangler(PddlEnv(EnvInfos(won=True, admissible_commands=True)))

    return make


def _data_folder(data_dir: str | Path | None) -> Path | None:
    given = data_dir if data_dir is not None else environ.get("ALFWORLD_DATA")
    if given is None:
        return None
    inner = Path(given) / "json_2.1.1"
    return inner if inner.is_dir() else Path(given)


def _read(task: Task, *, data_dir: Path | None) -> Mapping[str, object]:
    """The content of the task's file, in the wording that task.options ask for."""
    unknown = sorted(set(task.options) - {"release", "difficulty"})
    if unknown:
        raise ValueError(f"task.options: {', '.join(unknown)}: expected release or difficulty")
    release = task.options.get("release")
    if release is not None and release not in RELEASES:
        raise ValueError(f"task.options: release: was {release!r}; expected one of {', '.join(RELEASES)}")
    if task.task_id.startswith(f"{GENERATED}/"):
        return _generate(task, release or "current")
    game = cast("dict[str, object]", json.loads(game_file(task.task_id, data_dir=data_dir).read_bytes()))
    return game if release is None else _reword(game, release)


def _generate(task: Task, release: Release) -> Mapping[str, object]:
    parts = task.task_id.split("/")
    if len(parts) != 3 or not parts[2].isdecimal():
        raise ValueError(f"task.task_id: was {task.task_id!r}; expected {GENERATED}/TYPE/SEED, SEED a whole number")
    knobs = cast("dict[str, Any]", task.options.get("difficulty", {}))
    try:
        return generate(parts[1], int(parts[2]), release=release, difficulty=Difficulty(**knobs))
    except (TypeError, ValueError) as error:
        raise ValueError(f"task.task_id: {task.task_id}, difficulty {knobs}: {error}") from error


def _reword(game: Mapping[str, object], release: Release) -> Mapping[str, object]:
    """The same problem in another release: its domain, its grammar, the game's task line."""
    _, task = identify(domain=str(game["pddl_domain"]), grammar=str(game["grammar"]))
    domain, grammar = release_texts(release)
    return {**game, "pddl_domain": domain, "grammar": grammar.replace("Your task is to: UNKNOWN GOAL.", task)}
