"""Plans with full knowledge: the shortest command sequence that solves a game, read off its file.

A task is an errand or two: fetch an object, perhaps take it to a tool, put it somewhere. There are few ways to fill in
which object, which tool and which place, so every one is walked and the shortest kept. Nothing is executed; the engines
confirm the plans in the tests.

    plan(json.loads(path.read_text()))   # ["go to cabinet 2", "open cabinet 2", "take mug 1 from cabinet 2", ...]
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations

_FACT = re.compile(r"\(([^()]+)\)")
_TOOLS: Mapping[str, tuple[str, str]] = {
    "isclean": ("clean", "sinkbasintype"),
    "ishot": ("heat", "microwavetype"),
    "iscool": ("cool", "fridgetype"),
}
"""Predicate of the goal -> the command that brings it about, and the type of receptacle it needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a game asks for. Types are in lower case without "type"; `target` is the lamp's type where `light`."""

    thing: str
    target: str
    state: str | None
    count: int
    light: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _World:
    names: Mapping[str, str]
    places: Mapping[str, str]
    closed: frozenset[str]
    inside: Mapping[str, str]
    types: Mapping[str, str]
    facts: Mapping[str, frozenset[str]]
    start: str
    moves: bool


class _Walk:
    """A plan in the making: where it has come to, what it has opened, what it has said."""

    def __init__(self, world: _World) -> None:
        self._world = world
        self._at = world.start
        self._closed = set(world.closed)
        self.commands: list[str] = []

    def go(self, receptacle: str) -> None:
        if self._at != self._world.places[receptacle]:
            self._say("go to", receptacle)
            self._at = self._world.places[receptacle]

    def reach_into(self, receptacle: str) -> None:
        self.go(receptacle)
        if receptacle in self._closed:
            self._say("open", receptacle)
            self._closed.discard(receptacle)

    def fetch(self, thing: str) -> None:
        receptacle = self._world.inside[thing]
        self.reach_into(receptacle)
        self._say("take", thing, "from", receptacle)

    def treat(self, verb: str, thing: str, tool: str) -> None:
        self.go(tool)
        self._say(verb, thing, "with", tool)

    def put(self, thing: str, receptacle: str) -> None:
        self.reach_into(receptacle)
        if self._world.moves:
            self._say("move", thing, "to", receptacle)
        else:
            self._say("put", thing, "in/on", receptacle)

    def use(self, lamp: str) -> None:
        self.go(self._world.inside[lamp])
        self._say("use", lamp)

    def _say(self, *words: str) -> None:
        self.commands.append(" ".join(self._world.names.get(word, word) for word in words))


def plan(game: Mapping[str, object]) -> list[str]:
    """The shortest solution of a game file's content, in the wording of its release.

    Raises ValueError where the game cannot be solved or its goal is none of the six kinds.
    """
    problem = str(game["pddl_problem"]).lower()
    init, _, goal_text = problem[problem.index("(:init") :].partition("(:goal")
    goal = parse_goal(goal_text)
    world = _read(problem, init, moves='"move {o} to {r}"' in str(game["grammar"]))
    candidates = [walk.commands for walk in _walks(world, goal)]
    if not candidates:
        raise ValueError(f"pddl_problem: no way to reach the goal {goal}; expected a solvable game")
    return min(candidates, key=len)


def parse_goal(text: str) -> Goal:
    """Reads the `(:goal ...)` of a problem. ValueError where it is none of the six kinds."""
    lowered = text.lower()
    things = re.findall(r"\(objecttype \?\w+ (\w+)type\)", lowered)
    receptacles = re.findall(r"\(receptacletype \?\w+ (\w+)type\)", lowered)
    state = next((state for state in _TOOLS if f"({state} " in lowered), None)
    if "(istoggled" in lowered and len(things) == 2:
        return Goal(thing=things[1], target=things[0], state=None, count=1, light=True)
    if not things or not receptacles:
        raise ValueError(f"pddl_problem: goal was {text.strip()[:200]!r}; expected one of ALFWorld's six kinds of goal")
    return Goal(thing=things[0], target=receptacles[0], state=state, count=len(things), light=False)


def _walks(world: _World, goal: Goal) -> Iterator[_Walk]:
    things = [thing for thing in world.inside if world.types[thing] == goal.thing + "type"]
    things = [thing for thing in things if thing in world.facts["pickupable"]]
    if goal.light:
        yield from _light_walks(world, goal, things)
        return
    targets = [place for place in world.places if world.types[place] == goal.target + "type"]
    for target in targets:
        for chosen in permutations(things, goal.count):
            if goal.state is None:
                yield _errands(world, chosen, target)
            else:
                yield from _treated_errands(world, chosen[0], target, goal.state)


def _light_walks(world: _World, goal: Goal, things: list[str]) -> Iterator[_Walk]:
    for lamp in world.facts["toggleable"] & world.inside.keys():
        if world.types[lamp] == goal.target + "type":
            for thing in things:
                walk = _Walk(world)
                walk.fetch(thing)
                walk.use(lamp)
                yield walk


def _errands(world: _World, things: tuple[str, ...], target: str) -> _Walk:
    walk = _Walk(world)
    for thing in things:
        if world.inside[thing] != target:
            walk.fetch(thing)
            walk.put(thing, target)
    return walk


def _treated_errands(world: _World, thing: str, target: str, state: str) -> Iterator[_Walk]:
    verb, tool_type = _TOOLS[state]
    if thing not in world.facts[{"clean": "cleanable", "heat": "heatable", "cool": "coolable"}[verb]]:
        return
    if thing in world.facts[state]:
        yield _errands(world, (thing,), target)
        return
    for tool in world.places:
        if world.types[tool] == tool_type:
            walk = _Walk(world)
            walk.fetch(thing)
            walk.treat(verb, thing, tool)
            walk.put(thing, target)
            yield walk


def _read(problem: str, init: str, *, moves: bool) -> _World:
    by_predicate: dict[str, list[list[str]]] = defaultdict(list)
    for fact in _FACT.findall(init):
        predicate, *arguments = fact.split()
        by_predicate[predicate].append(arguments)
    opened = {receptacle for (receptacle,) in by_predicate["opened"]}
    typed = by_predicate["receptacletype"] + by_predicate["objecttype"]
    facts: dict[str, frozenset[str]] = defaultdict(frozenset)
    facts.update({name: frozenset(args[0] for args in facts_of) for name, facts_of in by_predicate.items()})
    return _World(
        names=_names(problem[: problem.index("(:init")]),
        places=dict(by_predicate["receptacleatlocation"]),
        closed=frozenset(receptacle for (receptacle,) in by_predicate["openable"]) - opened,
        inside=dict(by_predicate["inreceptacle"]),
        types=dict(typed),
        facts=facts,
        start=by_predicate["atlocation"][0][1],
        moves=moves,
    )


def _names(objects: str) -> dict[str, str]:
    """Identifiers -> the names that the game shows. ALFWorld numbers each kind from the last identifier backwards."""
    groups: dict[str, list[str]] = defaultdict(list)
    for identifier in sorted(set(re.findall(r"(\w+) - (?:object|receptacle)\b", objects))):
        kind, found, _ = identifier.partition("_bar_")
        if found:
            groups[kind + "basin" if "basin" in identifier else kind].append(identifier)
    return {
        identifier: f"{kind} {number}"
        for kind, members in groups.items()
        for number, identifier in enumerate(reversed(members), start=1)
    }
