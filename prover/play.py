"""Plays a game by hand in the terminal: `prover play alfworld [GAME]`. A way to look at the data.

Everything typed goes to the game, except for a few words of our own (see WORDS). `undo` is a fork: the state before
every command is kept, and going back restores it.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.columns import Columns
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from prover.environments import make
from prover.environments.alfworld.expert import Searcher
from prover.environments.alfworld.generate import TASK_TYPES, TRAIN_SEEDS
from prover.environments.environment import Environment, Step
from prover.trajectory import Task

WORDS: Final[Mapping[str, str]] = {
    "commands": "what may be typed now; a number then chooses one",
    "hint": "what an expert would do who has read the same texts",
    "undo": "back to before the last command",
    "quit": "leave",
}
"""What is not for the game -> what it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One command that was given: the state before it, and the answer."""

    before: bytes
    command: str
    step: Step


class Session:
    """One game played by hand: the moves so far, and the way back."""

    def __init__(self, environment: Environment, task: Task) -> None:
        self._environment = environment
        self.task = task
        self.opening = environment.reset(task).text
        self.moves: list[Move] = []

    @property
    def solved(self) -> bool:
        """The last move solved the task."""
        return bool(self.moves) and self.moves[-1].step.success

    @property
    def done(self) -> bool:
        """The episode is over; only `undo` leads on."""
        return bool(self.moves) and self.moves[-1].step.done

    def give(self, command: str) -> Step:
        """Gives one command to the game."""
        before = self._environment.snapshot()
        step = self._environment.step(command)
        self.moves.append(Move(before=before, command=command, step=step))
        return step

    def undo(self) -> str | None:
        """Takes the last move back. What was read before it; None where there is nothing to take back."""
        if not self.moves:
            return None
        self._environment.restore(self.moves.pop().before)
        return self.moves[-1].step.observation if self.moves else self.opening

    def commands(self) -> list[str] | None:
        """What may be given now, sorted; None where the environment does not say."""
        return self._environment.admissible()

    def hint(self) -> str | None:
        """What an expert would do next who has read what was read here. None where there is no expert for this game."""
        if not self.task.environment.startswith("alfworld"):
            return None
        searcher = Searcher(self.opening)
        for move in self.moves:
            searcher.observe(move.command, move.step.observation)
        return searcher.next_command()


def play(
    environment: str,
    task_id: str | None = None,
    *,
    console: Console | None = None,
    ask: Callable[[], str] | None = None,
) -> bool:
    """Plays until the player quits; True where the task was solved.

    Args:
        environment: the name of an environment.
        task_id: which task, or the path of a game's folder or file; None: a generated game, drawn at random.
        console: where it is shown.
        ask: reads one line of the player's; EOFError ends the game.

    Raises:
        ValueError: there is no such environment or task.
    """
    screen = console or Console()
    session = _start(environment, task_id)
    screen.print(Text(f"{session.task.environment}: {session.task.task_id}", style="dim"))
    screen.print(Text("  ".join(f"{word}: {meaning}" for word, meaning in WORDS.items()), style="dim"))
    screen.print(Panel(Text(session.opening)))
    shown: list[str] = []
    while True:
        try:
            line = (ask or (lambda: screen.input("> ")))().strip()
        except (EOFError, KeyboardInterrupt):
            line = "quit"
        if line == "quit":
            return session.solved
        if line == "commands":
            shown = _show_commands(screen, session)
        elif line:
            chosen = _chosen(line, shown)
            if chosen != line:
                screen.print(Text(f"> {chosen}", style="bold"))
            _answer(screen, session, chosen)


def _start(environment: str, task_id: str | None) -> Session:
    if task_id is None:
        if not environment.startswith("alfworld"):
            raise ValueError(f"task: none was given; expected the id of a task of {environment!r}")
        # Which game is a matter of taste, not of record: its id is shown, and playing that id plays it again.
        task_id = f"generated/{random.choice(TASK_TYPES)}/{random.choice(TRAIN_SEEDS)}"
    path = Path(task_id)
    folder = path.parent if path.is_file() else path
    if environment.startswith("alfworld") and folder.is_dir() and folder.name:
        world = make(environment, data_dir=folder.resolve().parent)
        return Session(world, Task(environment=environment, task_id=folder.resolve().name))
    return Session(make(environment), Task(environment=environment, task_id=task_id))


def _show_commands(screen: Console, session: Session) -> list[str]:
    commands = session.commands() or []
    if not commands:
        screen.print(Text("This environment does not list its commands.", style="dim"))
    screen.print(Columns([Text(f"{number:3d} {command}") for number, command in enumerate(commands, start=1)]))
    return commands


def _chosen(line: str, shown: list[str]) -> str:
    if line.isdecimal() and 1 <= int(line) <= len(shown):
        return shown[int(line) - 1]
    return line


def _answer(screen: Console, session: Session, line: str) -> None:
    if line == "undo":
        before = session.undo()
        screen.print(Text("There is nothing to undo." if before is None else f"Undone. {before}", style="yellow"))
    elif line == "hint":
        screen.print(Text(session.hint() or "There is no expert for this environment.", style="yellow"))
    elif session.done:
        screen.print(Text("The game is over: undo or quit.", style="yellow"))
    else:
        step = session.give(line)
        screen.print(Text(step.observation, style="" if step.valid else "dim"))
        if step.success:
            screen.print(Text(f"Solved in {len(session.moves)} commands.", style="bold green"))
