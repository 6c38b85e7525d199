"""ALFWorld as one of our environments: tasks by name, steps, forks and digests."""

import json
from dataclasses import dataclass
from os import environ
from pathlib import Path

from prover.environments.alfworld.engine import commands, opening, play
from prover.environments.alfworld.game import Game
from prover.environments.alfworld.library import find_game
from prover.environments.alfworld.state import State, digest, pack, unpack
from prover.environments.environment import Observation, Step
from prover.trajectory import Task

_DATA_VARIABLE = "ALFWORLD_DATA"
_DATA_FOLDER = "json_2.1.1"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Episode:
    """A game in play. `name` is what its snapshots begin with: the task and the game's fingerprint, as JSON."""

    game: Game
    name: bytes


class AlfworldEnvironment:
    """Plays ALFWorld's text games with our own engine.

    Task ids are paths of game folders below json_2.1.1, or generated/TYPE/SEED. Task options: `release`, "2021" or
    "current", chooses the wording (as the file is; generated games: current).
    """

    deterministic = True
    can_snapshot = True

    def __init__(self, *, data_dir: str | Path | None = None, max_turns: int | None = None) -> None:
        """
        Args:
            data_dir: the folder that holds valid_seen and so on, or its parent. Default: $ALFWORLD_DATA/json_2.1.1.
            max_turns: an episode is done after so many steps (never a success). None: the caller counts.
        """
        if max_turns is not None and max_turns < 1:
            raise ValueError(f"max_turns: was {max_turns}; expected 1 or more, or None")
        self._data_dir = _data_folder(data_dir)
        self._max_turns = max_turns
        self._episode: _Episode | None = None
        self._state = State(place=0)
        self._turns = 0

    @property
    def game(self) -> Game:
        """The game in play. RuntimeError before `reset`."""
        return self._playing().game

    @property
    def state(self) -> State:
        """The state of the game: an immutable value. RuntimeError before `reset`."""
        self._playing()
        return self._state

    def reset(self, task: Task) -> Observation:
        """Starts the game of a task. ValueError where task.task_id or task.options name none."""
        self._episode = self._open(task)
        self._state = self._episode.game.start
        self._turns = 0
        return Observation(text=opening(self._episode.game))

    def step(self, action: str) -> Step:
        """Gives one command. RuntimeError before `reset` and after the episode is done."""
        game = self._playing().game
        if self._done():
            raise RuntimeError("step: the episode is done; expected reset or restore first")
        self._state, answer, valid = play(game, self._state, action)
        self._turns += 1
        won = game.won(self._state)
        return Step(observation=answer, reward=float(won), done=self._done(), success=won, valid=valid)

    def admissible(self) -> list[str]:
        """The commands that would be accepted now, sorted."""
        return commands(self._playing().game, self._state)

    def snapshot(self) -> bytes:
        """The state as bytes, with the name of its task: another process continues from them alone."""
        return b"%s\n%d\n%s" % (self._playing().name, self._turns, pack(self._state))

    def restore(self, state: bytes) -> None:
        """Continues from a snapshot.

        Raises:
            ValueError: the bytes are no snapshot, or their game is another one here than it was there.
        """
        name, turns, packed = _split(state)
        restored = unpack(packed)
        if self._episode is None or self._episode.name != name:
            self._episode = self._reopen(name)
        self._state = restored
        self._turns = turns

    def digest(self) -> str:
        """ "2021-..." or "current-...": equal for equal states of one game, whatever way led there."""
        game = self._playing().game
        return digest(self._state, fingerprint=game.fingerprint, release=game.release)

    def _playing(self) -> _Episode:
        if self._episode is None:
            raise RuntimeError("no game is in play; expected reset or restore first")
        return self._episode

    def _done(self) -> bool:
        """After a step, that is: a game that is won as it begins takes one step to say so, in the stock engine too."""
        if self._max_turns is not None and self._turns >= self._max_turns:
            return True
        return self._turns > 0 and self._playing().game.won(self._state)

    def _open(self, task: Task) -> _Episode:
        game = find_game(task, data_dir=self._data_dir)
        fields = [task.environment, task.task_id, task.seed, dict(task.options), game.fingerprint]
        return _Episode(game=game, name=json.dumps(fields, sort_keys=True).encode())

    def _reopen(self, name: bytes) -> _Episode:
        environment, task_id, seed, options, fingerprint = json.loads(name)
        episode = self._open(Task(environment=environment, task_id=task_id, seed=seed, options=options))
        if episode.game.fingerprint != fingerprint:
            raise ValueError(
                f"snapshot: its game {task_id!r} has the fingerprint {fingerprint}, the one here "
                f"{episode.game.fingerprint}; expected the same file, in the same release"
            )
        return episode


def _split(snapshot: bytes) -> tuple[bytes, int, bytes]:
    parts = snapshot.split(b"\n", 2)
    if len(parts) != 3 or not parts[1].isdigit() or not parts[0].startswith(b"["):
        raise ValueError(f"snapshot: {len(snapshot)} bytes that are not a snapshot of an ALFWorld game")
    return parts[0], int(parts[1]), parts[2]


def _data_folder(data_dir: str | Path | None) -> Path | None:
    given = data_dir if data_dir is not None else environ.get(_DATA_VARIABLE)
    if given is None:
        return None
    inner = Path(given) / _DATA_FOLDER
    return inner if inner.is_dir() else Path(given)
