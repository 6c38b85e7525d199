"""The stock ALFWorld engine (textworld + alfworld), wired as `alfworld` itself wires it, behind three calls.

It keeps the game's state in a C library, one game a process at a time, and its memory grows with every game that is
loaded: use it in a child process and end that process after a few games.
"""

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import fast_downward
import textworld
from alfworld.agents.environment.alfred_tw_env import AlfredDemangler, AlfredInfos
from textworld import EnvInfos
from textworld.envs.pddl import textgen
from textworld.envs.wrappers import Filter
from textworld.generator.game import EntityInfo
from textworld.logic import Placeholder, Rule, Variable

_TASK_LINE = "Your task is to: UNKNOWN GOAL."


class Seen(NamedTuple):
    """What the stock engine answers to one command."""

    observation: str
    admissible: list[str]
    won: bool
    done: bool


class StockGame:
    """One game in the stock engine. Use as a context manager; one at a time in a process.

    With `remember`, functions whose answers depend on their arguments alone are asked once for each argument, and
    values that nothing changes are not copied (see `_remember_in_this_process`). That makes walks affordable and
    changes no answer (a test compares); it is off where speed is measured.
    """

    def __init__(self, content: Mapping[str, object], *, remember: bool = False) -> None:
        if remember:
            _remember_in_this_process()
        with TemporaryDirectory() as folder:
            path = Path(folder) / "game.tw-pddl"
            path.write_text(json.dumps(content))
            wrappers = [AlfredDemangler(shuffle=False), AlfredInfos, Filter]
            infos = EnvInfos(won=True, admissible_commands=True, extras=["gamefile"])
            self._env: Any = textworld.start(str(path), infos, wrappers=wrappers)
        self._inner: Any = self._env.unwrapped
        if remember:
            self._inner._logic.grammar = _RememberingGrammar(self._inner._logic)

    def reset(self) -> Seen:
        """Begins the game anew."""
        observation, infos = self._env.reset()
        return Seen(observation, infos["admissible_commands"], infos["won"], False)

    def step(self, command: str) -> Seen:
        """Gives one command."""
        observation, _, done, infos = self._env.step(command)
        return Seen(observation, infos["admissible_commands"], infos["won"], bool(done))

    def walkthrough(self) -> list[str]:
        """The planner's way to the goal from the present state; empty where it finds none."""
        return self._inner._pddl_state.replan(self._inner._entity_infos)


def current_release(content: Mapping[str, object], *, task: str) -> dict[str, object]:
    """The same game as the installed `alfworld` package would make it: its domain and grammar, and the task's line."""
    data = files("alfworld") / "data"
    grammar = (data / "alfred.twl2").read_text()
    if _TASK_LINE not in grammar:
        raise ValueError(f"alfred.twl2: expected the line {_TASK_LINE!r}")
    return {
        **content,
        "pddl_domain": (data / "alfred.pddl").read_text(),
        "grammar": grammar.replace(_TASK_LINE, task),
    }


class _RememberingGrammar:
    """A grammar that words each command once. What a command is called hangs on constants of the game only."""

    def __init__(self, logic: Any) -> None:
        self._grammar: Any = logic.grammar
        self._templates = {action.template for action in logic.actions.values()}
        self._worded: dict[tuple[object, ...], str] = {}

    def derive(self, start: str, context: Any) -> str:
        if start not in self._templates:
            return self._grammar.derive(start, context)
        key = (start, *((hole.name, thing.name) for hole, thing in context["mapping"].items()))
        if key not in self._worded:
            self._worded[key] = self._grammar.derive(start, context)
        return self._worded[key]


def _remember_in_this_process() -> None:
    """Remembers the translation of a problem and the parses of texts and queries, and shares names and queries' parts
    instead of copying them. Changes the stock engine's modules: only for child processes that do nothing else."""
    if hasattr(fast_downward.pddl2sas, "cache_info"):
        return
    fast_downward.pddl2sas = lru_cache(maxsize=4)(fast_downward.pddl2sas)
    wording: Any = textgen
    parse: Callable[..., object] = lru_cache(maxsize=None)(wording._parse_and_convert)

    def parse_anew(text: str, **options: object) -> object:
        return deepcopy(parse(text, **options))

    wording._parse_and_convert = parse_anew
    wording.Rule = _RememberingRule
    unchanging: tuple[Any, ...] = (EntityInfo, Placeholder, Variable)
    for kind in unchanging:
        kind.__deepcopy__ = _itself


class _RememberingRule:
    """The part of `Rule` that wording uses."""

    parse_conjunctive_query = staticmethod(lru_cache(maxsize=None)(Rule.parse_conjunctive_query))


def _itself(value: object, memo: object) -> object:
    return value
