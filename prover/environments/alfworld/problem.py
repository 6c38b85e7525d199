"""Reads the PDDL problem of a `game.tw-pddl` file: which things there are, what holds at the start, what is wanted.

Names are lower-cased, as the planner behind the stock engine does; everything that is sorted later (numbers in display
names, lists in texts) is sorted by these lower-case names.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

Expression: TypeAlias = "str | list[Expression]"
"""A PDDL form: a word, or a list of forms."""

_FACT = re.compile(r"\(([^()]*)\)")
_WORD = re.compile(r"[()]|[^\s()]+")
_COMMENT = re.compile(r";[^\n]*")


class UnknownGameError(ValueError):
    """The file is not one of the games that this engine knows. The message names the difference."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One game's facts.

    Attributes:
        kinds: name -> declared type ("object", "receptacle", "location", "agent", "otype", "rtype").
        facts: predicate -> the argument lists for which it holds at the start.
        goal: what must hold at the end.
    """

    kinds: Mapping[str, str]
    facts: Mapping[str, tuple[tuple[str, ...], ...]]
    goal: Expression

    def pairs(self, predicate: str) -> tuple[tuple[str, str], ...]:
        """The facts of a predicate with two arguments."""
        found = self.facts.get(predicate, ())
        if any(len(arguments) != 2 for arguments in found):
            raise UnknownGameError(f"pddl_problem: {predicate}: expected two arguments, as in ({predicate} X Y)")
        return tuple((arguments[0], arguments[1]) for arguments in found)

    def names(self, predicate: str) -> tuple[str, ...]:
        """The facts of a predicate with one argument."""
        found = self.facts.get(predicate, ())
        if any(len(arguments) != 1 for arguments in found):
            raise UnknownGameError(f"pddl_problem: {predicate}: expected one argument, as in ({predicate} X)")
        return tuple(arguments[0] for arguments in found)


def parse_problem(text: str) -> Problem:
    """Reads a problem in the shape that ALFWorld's generator writes: objects, init, goal, in that order.

    Raises:
        UnknownGameError: a section is missing, or a fact is not a plain list of names.
    """
    text = _COMMENT.sub("", text).lower()
    marks = [text.find(section) for section in ("(:objects", "(:init", "(:goal")]
    if -1 in marks or marks != sorted(marks):
        raise UnknownGameError("pddl_problem: expected the sections (:objects, (:init and (:goal, in that order")
    objects, init, goal = text[marks[0] : marks[1]], text[marks[1] : marks[2]], text[marks[2] :]
    facts: dict[str, list[tuple[str, ...]]] = {}
    for match in _FACT.finditer(init):
        name, *arguments = match.group(1).split() or [""]
        facts.setdefault(name, []).append(tuple(arguments))
    return Problem(
        kinds=_kinds(objects),
        facts={name: tuple(rows) for name, rows in facts.items()},
        goal=_first_form(goal),
    )


def _kinds(section: str) -> dict[str, str]:
    words = _WORD.findall(section)[2:]  # without "(" and ":objects"
    kinds: dict[str, str] = {}
    waiting: list[str] = []
    index = 0
    while index < len(words) and words[index] != ")":
        if words[index] == "-":
            kinds.update((name, words[index + 1]) for name in waiting)
            waiting = []
            index += 2
        else:
            waiting.append(words[index])
            index += 1
    return kinds


def _first_form(text: str) -> Expression:
    """The first parenthesised form of a text; what follows it is left alone."""
    open_forms: list[list[Expression]] = []
    for word in _WORD.findall(text):
        if word == "(":
            open_forms.append([])
        elif word == ")":
            form = open_forms.pop()
            if not open_forms:
                return form
            open_forms[-1].append(form)
        else:
            open_forms[-1].append(word)
    raise UnknownGameError("pddl_problem: (:goal: a closing parenthesis is missing")
