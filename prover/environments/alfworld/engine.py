"""Plays a game: the text of its beginning, the commands that may be given in a state, and what one command does."""

from collections.abc import Mapping
from typing import NamedTuple

from prover.environments.alfworld import rules, rules_on_objects
from prover.environments.alfworld.game import Game
from prover.environments.alfworld.rules import NOTHING_HAPPENS, Rule
from prover.environments.alfworld.state import State

RULES: Mapping[str, tuple[Rule, ...]] = {
    "look": (rules.Look(),),
    "inventory": (rules.Inventory(),),
    "help": (rules.Help(),),
    "go": (rules.GoTo(),),
    "open": (rules.Open(),),
    "close": (rules.Close(),),
    "take": (rules.Take(),),
    "put": (rules.Put(),),
    "move": (rules.Put(),),
    "examine": (rules_on_objects.ExamineReceptacle(), rules_on_objects.ExamineObject()),
    "clean": (rules_on_objects.Clean(),),
    "heat": (rules_on_objects.Heat(),),
    "cool": (rules_on_objects.Cool(),),
    "use": (rules_on_objects.Use(),),
    "slice": (rules_on_objects.Slice(),),
}
"""First word of a command -> the rules that it may mean. `put` is the 2021 release's word, `move` the current one's."""

_ALL_RULES = tuple(rule for word, found in RULES.items() if word != "move" for rule in found)


class Moved(NamedTuple):
    """What a command did: the next state, the answer, and whether the command was one that could be given."""

    state: State
    answer: str
    valid: bool


def opening(game: Game) -> str:
    """The text that a game begins with: the room, and the task."""
    return f"-= Welcome to TextWorld, ALFRED! =-\n\n{rules.room(game)}\n\n{game.task}"


def commands(game: Game, state: State) -> list[str]:
    """Every command that may be given in this state, sorted, none twice."""
    return sorted({command for rule in _ALL_RULES for command, _ in rule.choices(game, state)})


def play(game: Game, state: State, command: str) -> Moved:
    """Gives one command. Spaces around it are dropped; anything else that differs from a possible command, be it in
    case, is answered "Nothing happens." and changes nothing."""
    command = command.strip()
    for rule in RULES.get(command.partition(" ")[0], ()):
        for possible, about in rule.choices(game, state):
            if possible == command:
                after = rule.effect(game, state, about)
                return Moved(after, rule.answer(game, after, about), True)
    return Moved(state, NOTHING_HAPPENS, False)
