"""The text of a game: a furnished room and a goal, written as the PDDL problem of an official game file."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from prover.environments.alfworld.generate_facts import (
    CAN_CONTAIN,
    OBJECT_TYPES,
    PROPERTIES,
    RECEPTACLE_TYPES,
)
from prover.environments.alfworld.rooms import OPENABLE

_COOLED = PROPERTIES["coolable"] | {"Glassbottle"}
_PREDICATES = ("isReceptacleObject", "toggleable", "cleanable", "heatable", "coolable", "sliceable")


@dataclass(frozen=True, slots=True, kw_only=True)
class Receptacle:
    """A piece of furniture. `id` is its name in the problem, `location` the place that one stands at to use it."""

    type: str
    id: str
    location: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    """An object. `inside` is the receptacle it lies in, None for a fixture, which stands at a place of its own."""

    type: str
    id: str
    location: str
    inside: Receptacle | None


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """One room with everything in it. `start` is the place where the agent stands at first."""

    receptacles: tuple[Receptacle, ...]
    things: tuple[Thing, ...]
    start: str


def problem_text(name: str, house: House, goal: str) -> str:
    """The PDDL problem `name`, laid out as the official files are."""
    objects = "\n        ".join(_objects(house))
    init = "\n        ".join(f"({fact})" for fact in _facts(house))
    return (
        f"\n(define (problem {name})\n(:domain alfred)\n(:objects\nagent1 - agent\n{objects}\n        )\n    \n\n"
        f"(:init\n\n\n        {init}\n        )\n    \n\n        (:goal\n            {goal}\n        )\n    )\n    "
    )


def goal_text(task_type: str, *, thing: str, target: str) -> str:
    """The goal of one of the six task types. `target` is the lamp's type for look_at_obj_in_light."""
    if task_type == "look_at_obj_in_light":
        return (
            "(and (exists (?ot - object ?r - receptacle ?a - agent ?l - location)"
            f" (and (objectType ?ot {target}Type) (toggleable ?ot) (isToggled ?ot)"
            " (receptacleAtLocation ?r ?l) (atLocation ?a ?l) (inReceptacle ?ot ?r)))"
            f" (exists (?o - object ?a - agent) (and (objectType ?o {thing}Type) (holds ?a ?o))))"
        )
    if task_type == "pick_two_obj_and_place":
        return (
            "(and (exists (?r - receptacle) (exists (?o1 - object)"
            f" (and (objectType ?o1 {thing}Type) (receptacleType ?r {target}Type) (inReceptacle ?o1 ?r)"
            f" (exists (?o2 - object) (and (not (= ?o1 ?o2)) (objectType ?o2 {thing}Type)"
            f" (receptacleType ?r {target}Type) (inReceptacle ?o2 ?r)))))))"
        )
    able, state = {
        "pick_and_place_simple": ("", ""),
        "pick_clean_then_place_in_recep": ("(cleanable ?o) ", " (isClean ?o)"),
        "pick_heat_then_place_in_recep": ("(heatable ?o) ", " (isHot ?o)"),
        "pick_cool_then_place_in_recep": ("(coolable ?o) ", " (isCool ?o)"),
    }[task_type]
    return (
        f"(and (exists (?r - receptacle) (exists (?o - object) (and {able}(objectType ?o {thing}Type)"
        f" (receptacleType ?r {target}Type){state} (inReceptacle ?o ?r)))))"
    )


def _objects(house: House) -> Iterator[str]:
    yield from (f"{kind} - object" for kind in OBJECT_TYPES)
    yield from (f"{kind}Type - otype" for kind in OBJECT_TYPES)
    yield from (f"{kind}Type - rtype" for kind in RECEPTACLE_TYPES)
    yield from sorted(f"{thing.id} - object" for thing in house.things)
    yield from sorted(f"{receptacle.id} - receptacle" for receptacle in house.receptacles)
    locations = {entity.location for entity in (*house.receptacles, *house.things)} | {house.start}
    yield from (f"{location} - location" for location in sorted(locations))


def _facts(house: House) -> Iterator[str]:
    receptacle_types = _unique(receptacle.type for receptacle in house.receptacles)
    thing_types = _unique(thing.type for thing in house.things)
    portable = frozenset[str]().union(*CAN_CONTAIN.values())
    yield from (f"receptacleType {receptacle.id} {receptacle.type}Type" for receptacle in house.receptacles)
    yield from (f"objectType {thing.id} {thing.type}Type" for thing in house.things)
    for place in receptacle_types:
        takes = CAN_CONTAIN.get(place, frozenset[str]())
        yield from (f"canContain {place}Type {kind}Type" for kind in thing_types if kind in takes)
    yield from (f"pickupable {thing.id}" for thing in house.things if thing.type in portable)
    yield from (f"openable {receptacle.id}" for receptacle in house.receptacles if receptacle.type in OPENABLE)
    yield f"atLocation agent1 {house.start}"
    for predicate in _PREDICATES:
        yield from (f"{predicate} {thing.id}" for thing in house.things if thing.type in PROPERTIES[predicate])
    for thing in house.things:
        if thing.inside is not None and thing.inside.type == "Fridge" and thing.type in _COOLED:
            yield f"isCool {thing.id}"
    yield from (f"inReceptacle {thing.id} {thing.inside.id}" for thing in house.things if thing.inside is not None)
    yield from (f"receptacleAtLocation {receptacle.id} {receptacle.location}" for receptacle in house.receptacles)
    yield from (f"objectAtLocation {thing.id} {thing.location}" for thing in house.things)


def _unique(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))
