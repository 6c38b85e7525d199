"""What is wanted of the player: the six goals of ALFWorld, read from the PDDL problem.

Five of them want one or two objects of a type in one receptacle of a type, the objects perhaps clean, hot or cool. The
sixth wants an object of a type in hand where a switched-on lamp stands.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from prover.environments.alfworld.problem import Expression, UnknownGameError

_FIELDS = {"isclean": "clean", "ishot": "hot", "iscool": "cool", "issliced": "sliced"}
_ABLE = ("cleanable", "heatable", "coolable", "sliceable")

Atom = tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """A goal in the file's words.

    Attributes:
        object_type: what to bring or to look at, such as "mugtype".
        receptacle_type: where to put it; "" where the goal is to look at it under a lamp.
        lamp_type: the lamp; "" where the goal is to put something somewhere.
        count: how many such objects in one receptacle.
        done: the fields of State ("clean", "hot"...) in which the objects must stand.
        able: the constant properties that the objects must have, such as "heatable".
    """

    object_type: str
    receptacle_type: str = ""
    lamp_type: str = ""
    count: int = 1
    done: tuple[str, ...] = ()
    able: tuple[str, ...] = ()


def read_goal(goal: Expression) -> Wanted:
    """The goal of a problem. UnknownGameError names what is not in any of the six goals."""
    atoms = set(_atoms(goal))
    read = _read_look if any(atom[0] == "holds" for atom in atoms) else _read_place
    wanted, explained = read(atoms)
    if atoms != explained:
        strange = ", ".join(f"({' '.join(atom)})" for atom in sorted(atoms ^ explained))
        raise UnknownGameError(f"pddl_problem: (:goal: {strange}: not as in any of ALFWorld's six goals")
    return wanted


def _read_place(atoms: set[Atom]) -> tuple[Wanted, set[Atom]]:
    """The goal, and the atoms that a goal of that meaning has."""
    things = sorted(atom[1] for atom in atoms if atom[0] == "objecttype")
    object_type = _type_of(atoms, "objecttype")
    receptacle = next((atom[1] for atom in atoms if atom[0] == "receptacletype"), "")
    receptacle_type = _type_of(atoms, "receptacletype")
    done = tuple(sorted({atom[0] for atom in atoms if atom[0] in _FIELDS}))
    able = tuple(sorted({atom[0] for atom in atoms if atom[0] in _ABLE}))
    explained: set[Atom] = {("receptacletype", receptacle, receptacle_type)}
    for thing in things:
        explained |= {("objecttype", thing, object_type), ("inreceptacle", thing, receptacle)}
        explained |= {(predicate, thing) for predicate in done + able}
    if len(things) > 1:
        explained |= {atom for atom in atoms if atom[0] == "different" and sorted(atom[1:]) == things}
        if not any(atom[0] == "different" for atom in explained):
            raise UnknownGameError(f"pddl_problem: (:goal: {things}: expected (not (= {' '.join(things)}))")
    wanted = Wanted(
        object_type=object_type,
        receptacle_type=receptacle_type,
        count=len(things),
        done=tuple(_FIELDS[predicate] for predicate in done),
        able=able,
    )
    return wanted, explained


def _read_look(atoms: set[Atom]) -> tuple[Wanted, set[Atom]]:
    """The goal, and the atoms that a goal of that meaning has."""
    held = next(atom[-1] for atom in atoms if atom[0] == "holds")
    lamp = next((atom[1] for atom in atoms if atom[0] == "istoggled"), "")
    place = next((atom[-1] for atom in atoms if atom[0] == "atlocation"), "")
    receptacle = next((atom[-1] for atom in atoms if atom[0] == "inreceptacle"), "")
    agents = {atom[1] for atom in atoms if atom[0] in ("holds", "atlocation")}
    wanted = Wanted(
        object_type=_type_of({atom for atom in atoms if held in atom}, "objecttype"),
        lamp_type=_type_of({atom for atom in atoms if lamp in atom}, "objecttype"),
    )
    explained: set[Atom] = {
        ("objecttype", held, wanted.object_type),
        ("objecttype", lamp, wanted.lamp_type),
        ("toggleable", lamp),
        ("istoggled", lamp),
        ("receptacleatlocation", receptacle, place),
        ("inreceptacle", lamp, receptacle),
    }
    explained |= {("holds", agent, held) for agent in agents} | {("atlocation", agent, place) for agent in agents}
    return wanted, explained


def _type_of(atoms: set[Atom], predicate: str) -> str:
    types = sorted({atom[-1] for atom in atoms if atom[0] == predicate})
    if len(types) != 1:
        raise UnknownGameError(f"pddl_problem: (:goal: {predicate}: was {types}; expected one type")
    return types[0]


def _atoms(form: Expression) -> Iterator[Atom]:
    """The atoms under `and` and `exists`; `(not (= x y))` comes as ("different", x, y)."""
    match form:
        case [":goal", inner] | ["exists", _, inner]:
            yield from _atoms(inner)
        case ["and", *parts]:
            for part in parts:
                yield from _atoms(part)
        case ["not", ["=", str(one), str(other)]]:
            yield ("different", one, other)
        case [str(predicate), *arguments] if all(isinstance(argument, str) for argument in arguments):
            yield (predicate, *(str(argument) for argument in arguments))
        case _:
            raise UnknownGameError(f"pddl_problem: (:goal: was {form!r}; expected and, exists and plain facts")
