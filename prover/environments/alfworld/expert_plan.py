"""Plans with full knowledge: the shortest command sequence that solves a game, read off its file.

A task is an errand or two: fetch an object, perhaps take it to a tool, put it somewhere. There are few ways to fill in
which object, which tool and which place, so every one is walked and the shortest kept. Nothing is executed; the engines
confirm the plans in the tests.

    plan(json.loads(path.read_text()))   # ["go to cabinet 2", "open cabinet 2", "take mug 1 from cabinet 2", ...]
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations, product

_FACT = re.compile(r"\(([^()]+)\)")
TOOLS: Mapping[str, str] = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}
"""Treatment -> the type of receptacle that it needs."""

_STATES: Mapping[str, str] = {"isclean": "clean", "ishot": "heat", "iscool": "cool"}
"""Predicate of the goal -> the treatment that brings it about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a game asks for. Types are in lower case, as in the names that the game shows.

    Attributes:
        thing: the type of the object.
        target: the type of the receptacle that it goes to; of the lamp where `light`.
        treatment: "clean", "heat", "cool" or None.
        count: how many objects.
        light: the object is to be looked at under a lamp, not put anywhere.
    """

    thing: str
    target: str
    treatment: str | None = None
    count: int = 1
    light: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _World:
    """The parts of a problem that plans depend on. A thing may be in several receptacles: a pan on two burners."""

    names: Mapping[str, str]
    places: Mapping[str, str]
    closed: frozenset[str]
    inside: Mapping[str, tuple[str, ...]]
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

    def fetch(self, thing: str, receptacle: str) -> None:
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

    def use(self, lamp: str, receptacle: str) -> None:
        self.go(receptacle)
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
    treatment = next((verb for state, verb in _STATES.items() if f"({state} " in lowered), None)
    if "(istoggled" in lowered and len(things) == 2:
        return Goal(thing=things[1], target=things[0], light=True)
    if not things or not receptacles:
        raise ValueError(f"pddl_problem: goal was {text.strip()[:200]!r}; expected one of ALFWorld's six kinds of goal")
    return Goal(thing=things[0], target=receptacles[0], treatment=treatment, count=len(things))


def _walks(world: _World, goal: Goal) -> Iterator[_Walk]:
    things = sorted(thing for thing in world.facts["pickupable"] if _is_a(world, thing, goal.thing))
    if goal.light:
        yield from _light_walks(world, goal, things)
        return
    for target in (place for place in world.places if _is_a(world, place, goal.target)):
        for chosen in permutations(things, goal.count):
            if goal.treatment is None:
                yield from _errands(world, chosen, target)
            else:
                yield from _treated_errands(world, chosen[0], target, goal.treatment)


def _is_a(world: _World, entity: str, kind: str) -> bool:
    return world.types.get(entity) == kind + "type"


def _light_walks(world: _World, goal: Goal, things: Sequence[str]) -> Iterator[_Walk]:
    lamps = sorted(lamp for lamp in world.facts["toggleable"] if _is_a(world, lamp, goal.target))
    for lamp, thing in product(lamps, things):
        for stand, source in product(world.inside[lamp], world.inside[thing]):
            walk = _Walk(world)
            walk.fetch(thing, source)
            walk.use(lamp, stand)
            yield walk


def _errands(world: _World, things: Sequence[str], target: str) -> Iterator[_Walk]:
    """Brings the things to the target, those that are not there."""
    missing = [thing for thing in things if target not in world.inside[thing]]
    for sources in product(*(world.inside[thing] for thing in missing)):
        walk = _Walk(world)
        for thing, source in zip(missing, sources, strict=True):
            walk.fetch(thing, source)
            walk.put(thing, target)
        yield walk


def _treated_errands(world: _World, thing: str, target: str, verb: str) -> Iterator[_Walk]:
    state = next(state for state, treatment in _STATES.items() if treatment == verb)
    if thing not in world.facts[f"{verb}able"]:
        return
    if thing in world.facts[state]:
        yield from _errands(world, (thing,), target)
        return
    tools = [place for place in world.places if _is_a(world, place, TOOLS[verb])]
    for tool, source in product(tools, world.inside[thing]):
        walk = _Walk(world)
        walk.fetch(thing, source)
        walk.treat(verb, thing, tool)
        if target == source or target not in world.inside[thing]:
            walk.put(thing, target)
        yield walk


def _read(problem: str, init: str, *, moves: bool) -> _World:
    by_predicate: dict[str, list[list[str]]] = defaultdict(list)
    for fact in _FACT.findall(init):
        predicate, *arguments = fact.split()
        by_predicate[predicate].append(arguments)
    inside: dict[str, list[str]] = defaultdict(list)
    for thing, receptacle in by_predicate["inreceptacle"]:
        inside[thing].append(receptacle)
    opened = {receptacle for (receptacle,) in by_predicate["opened"]}
    typed = by_predicate["receptacletype"] + by_predicate["objecttype"]
    facts: dict[str, frozenset[str]] = defaultdict(frozenset)
    facts.update({name: frozenset(args[0] for args in facts_of) for name, facts_of in by_predicate.items()})
    return _World(
        names=_names(problem[: problem.index("(:init")]),
        places=dict(by_predicate["receptacleatlocation"]),
        closed=frozenset(receptacle for (receptacle,) in by_predicate["openable"]) - opened,
        inside=defaultdict(tuple[str, ...], {thing: tuple(places) for thing, places in inside.items()}),
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
