"""A world so small that the value of every state is known: rooms in a row, two doors in each.

    task_id "6/2,4": six rooms, numbered from 0; in rooms 2 and 4 one of the doors is a trap

Every other door leads one room on, and the last room's doors lead out. A trap ends the episode; with the task's
option {"traps": "late"} it lets one go on, and the last door turns out to be shut: a mistake with a way ahead of it.
Which door of a pivotal room is right follows from the task's seed and is not told. For a policy that picks the right
door of room j with probability q_j the value of room i is the product of q_j over the pivotal rooms j >= i, and 0 once
trapped: what verification estimates can be held against the truth.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass

from prover.environments.environment import Observation, Step
from prover.trajectory import Task

DOORS = ("red", "blue")
COMMANDS = ("open blue door", "open red door")
"""What is understood, sorted."""

_MOST_ROOMS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rooms:
    length: int
    pivots: frozenset[int]
    seed: int
    late: bool


class ChainEnvironment:
    """`chain`: deterministic, with snapshots."""

    deterministic = True
    can_snapshot = True

    def __init__(self) -> None:
        self._rooms: _Rooms | None = None
        self._room = 0
        self._trapped = False
        self._done = False

    def reset(self, task: Task) -> Observation:
        """Starts in room 0. ValueError for a task id that is not LENGTH/PIVOT,PIVOT,..."""
        self._rooms = _parse(task)
        self._room, self._trapped, self._done = 0, False, False
        return Observation(text=self._text())

    def step(self, action: str) -> Step:
        """Opens a door. RuntimeError after the end or before `reset`."""
        rooms = self._rooms
        if rooms is None or self._done:
            raise RuntimeError(f"chain: {action!r} {'before reset' if rooms is None else 'after the end'}")
        if action not in COMMANDS:
            return Step(
                observation=f"There is no way to {action!r}.", reward=0.0, done=False, success=False, valid=False
            )
        if self._room in rooms.pivots and action.split()[1] != right_door(rooms.seed, self._room):
            self._trapped = True
            self._done = not rooms.late
        if self._done:
            return Step(observation="The floor gives way.", reward=0.0, done=True, success=False, valid=True)
        self._room += 1
        self._done = self._room == rooms.length
        out = self._done and not self._trapped
        text = ("You are out." if out else "The last door is shut.") if self._done else self._text()
        return Step(observation=text, reward=float(out), done=self._done, success=out, valid=True)

    def admissible(self) -> list[str] | None:
        """Both doors, until the end."""
        return [] if self._done else list(COMMANDS)

    def snapshot(self) -> bytes:
        """The state as JSON. RuntimeError before `reset`."""
        rooms = self._rooms
        if rooms is None:
            raise RuntimeError("chain: snapshot before reset")
        state = [rooms.length, sorted(rooms.pivots), rooms.seed, rooms.late, self._room, self._trapped, self._done]
        return json.dumps(state).encode()

    def restore(self, state: bytes) -> None:
        """Continues from a snapshot."""
        length, pivots, seed, late, room, trapped, done = json.loads(state)
        self._rooms = _Rooms(length=length, pivots=frozenset(pivots), seed=seed, late=late)
        self._room, self._trapped, self._done = room, trapped, done

    def digest(self) -> str:
        """Of everything that decides what happens next."""
        return hashlib.sha256(self.snapshot()).hexdigest()[:16]

    def _text(self) -> str:
        length = 0 if self._rooms is None else self._rooms.length
        return f"You are in room {self._room} of {length}. There is a red door and a blue door."


def right_door(seed: int, room: int) -> str:
    """The colour of the door that is no trap."""
    return DOORS[hashlib.sha256(f"{seed}:{room}".encode()).digest()[0] % 2]


def value(task: Task, room: int, chance_right: Callable[[int], float]) -> float:
    """V of a room that was reached without a trap: the probability that a policy gets out.

    `chance_right` is its q_j by room.
    """
    chance = 1.0
    for pivot in sorted(_parse(task).pivots):
        chance *= chance_right(pivot) if pivot >= room else 1.0
    return chance


def _parse(task: Task) -> _Rooms:
    length, slash, pivots = task.task_id.partition("/")
    numbers = [part for part in pivots.split(",") if part]
    if not (slash and length.isdecimal() and all(number.isdecimal() for number in numbers)):
        raise ValueError(f"task.task_id: was {task.task_id!r}; expected LENGTH/PIVOT,PIVOT,... such as '6/2,4'")
    traps = task.options.get("traps", "at once")
    if traps not in ("at once", "late"):
        raise ValueError(f"task.options.traps: was {traps!r}; expected 'at once' or 'late'")
    rooms = _Rooms(length=int(length), pivots=frozenset(map(int, numbers)), seed=task.seed, late=traps == "late")
    if not 1 <= rooms.length <= _MOST_ROOMS or any(pivot >= rooms.length for pivot in rooms.pivots):
        raise ValueError(f"task.task_id: was {task.task_id!r}; expected 1 to {_MOST_ROOMS} rooms and pivots among them")
    return rooms
