"""One game, read from its file and grounded once: everything about it that never changes, as numbers and bit sets."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b

from prover.environments.alfworld.goal import Wanted, read_goal
from prover.environments.alfworld.names import display_names
from prover.environments.alfworld.problem import Problem, UnknownGameError, parse_problem
from prover.environments.alfworld.release import identify
from prover.environments.alfworld.state import State
from prover.environments.alfworld.wording import Release

_CONSEQUENTIAL = """
    atlocation receptacleatlocation objectatlocation openable opened inreceptacle isreceptacleobject inreceptacleobject
    receptacletype cancontain objecttype isclean cleanable ishot heatable iscool coolable pickupable toggleable
    istoggled sliceable issliced
"""
_INCONSEQUENTIAL = "checked examined wasinreceptacle isreceptacleobjectfull full moveable ison"
"""Facts that no rule asks for and no text shows."""
_KNOWN = frozenset(f"{_CONSEQUENTIAL} {_INCONSEQUENTIAL}".split())


@dataclass(frozen=True, kw_only=True, slots=True)
class Game:
    """What the rules look up. Objects, receptacles and places are numbered along their sorted mangled names.

    Attributes:
        release: whose words the game speaks.
        fingerprint: hash of the problem, the task line and the release: equal where two games play alike.
        task: the line that tells the player what to do.
        objects, receptacles, places: display names, by number.
        width: how many objects there are: the length in bits of a row of State's relations.
        everything: the set of all objects: a row with every bit.
        place_of: receptacle -> place.
        receptacles_at: place -> the receptacles one faces there.
        accepts: receptacle -> the set of objects that may be put there.
        contained: object -> the objects that are in it (a constant; no rule moves them).
        openable, sinks, microwaves, fridges: sets of receptacles.
        pickupable, cleanable, heatable, coolable, toggleable, sliceable, knives, containers: sets of objects.
        wanted: the goal in the file's words.
        wanted_objects, wanted_lamps: the sets of objects that it means.
        wanted_receptacles: the receptacles that it means.
        start: the state that the game begins in.
    """

    release: Release
    fingerprint: str
    task: str
    objects: tuple[str, ...]
    receptacles: tuple[str, ...]
    places: tuple[str, ...]
    width: int
    everything: int
    place_of: tuple[int, ...]
    receptacles_at: tuple[tuple[int, ...], ...]
    accepts: tuple[int, ...]
    contained: tuple[tuple[int, ...], ...]
    openable: int
    sinks: int
    microwaves: int
    fridges: int
    pickupable: int
    cleanable: int
    heatable: int
    coolable: int
    toggleable: int
    sliceable: int
    knives: int
    containers: int
    wanted: Wanted
    wanted_objects: int
    wanted_lamps: int
    wanted_receptacles: tuple[int, ...]
    start: State

    def won(self, state: State) -> bool:
        """The goal is reached in this state."""
        wanted = self.wanted_objects
        if self.wanted_lamps:
            shining = self.wanted_lamps & state.toggled
            return bool(wanted & state.holding and shining) and any(
                state.inside >> receptacle * self.width & shining for receptacle in self.receptacles_at[state.place]
            )
        for field in self.wanted.done:
            wanted &= getattr(state, field)
        return bool(wanted) and any(
            (state.inside >> receptacle * self.width & wanted).bit_count() >= self.wanted.count
            for receptacle in self.wanted_receptacles
        )


def read_game(content: Mapping[str, object], *, release: Release | None = None) -> Game:
    """Grounds the content of a `game.tw-pddl` file, worded as the given release, or as the file is.

    Raises:
        UnknownGameError: a field is missing, or the domain, the grammar or the problem is not ALFWorld's.
    """
    texts: dict[str, str] = {}
    for field in ("pddl_domain", "grammar", "pddl_problem"):
        text = content.get(field)
        if not isinstance(text, str):
            raise UnknownGameError(f"{field}: was {type(text).__name__}; expected the text of a game.tw-pddl file")
        texts[field] = text
    file_release, task = identify(domain=texts["pddl_domain"], grammar=texts["grammar"])
    problem = texts["pddl_problem"]
    worded = release or file_release
    fingerprint = blake2b(f"{worded}\n{task}\n{problem}".encode(), digest_size=16).hexdigest()
    return _Grounding(parse_problem(problem)).game(worded, fingerprint=fingerprint, task=task)


class _Grounding:
    """Numbers the things of a problem and turns its facts into sets. Used once."""

    def __init__(self, problem: Problem) -> None:
        unknown = sorted(set(problem.facts) - _KNOWN)
        if unknown:
            raise UnknownGameError(f"pddl_problem: (:init: {', '.join(unknown)}: not a fact that ALFWorld starts with")
        named = {name for rows in problem.facts.values() for row in rows for name in row}
        undeclared = sorted(named - set(problem.kinds))
        if undeclared:
            raise UnknownGameError(f"pddl_problem: (:init: {', '.join(undeclared)}: not declared in (:objects")
        self.problem = problem
        self.shown = display_names(named)
        kinds: dict[str, list[str]] = {"object": [], "receptacle": [], "location": [], "agent": []}
        for name in sorted(named):
            kinds.get(problem.kinds[name], []).append(name)
        self.objects = {name: number for number, name in enumerate(kinds["object"])}
        self.receptacles = {name: number for number, name in enumerate(kinds["receptacle"])}
        self.places = {name: number for number, name in enumerate(kinds["location"])}
        self.place_of = self._place_of()

    def game(self, release: Release, *, fingerprint: str, task: str) -> Game:
        """The grounded game."""
        wanted = read_goal(self.problem.goal)
        sink_types = ("sinktype", "sinkbasintype") if release == "2021" else ("sinkbasintype",)
        return Game(
            release=release,
            fingerprint=fingerprint,
            task=task,
            objects=tuple(self.shown[name] for name in self.objects),
            receptacles=tuple(self.shown[name] for name in self.receptacles),
            places=tuple(self.shown[name] for name in self.places),
            width=len(self.objects),
            everything=(1 << len(self.objects)) - 1,
            place_of=self.place_of,
            receptacles_at=tuple(
                tuple(number for number, place in enumerate(self.place_of) if place == here)
                for here in range(len(self.places))
            ),
            accepts=self._accepts(),
            contained=self._contained(),
            openable=_set_of(self.receptacles, self.problem.names("openable")),
            sinks=self._receptacles_of(*sink_types),
            microwaves=self._receptacles_of("microwavetype"),
            fridges=self._receptacles_of("fridgetype"),
            pickupable=self._objects_that_are("pickupable"),
            cleanable=self._objects_that_are("cleanable"),
            heatable=self._objects_that_are("heatable"),
            coolable=self._objects_that_are("coolable"),
            toggleable=self._objects_that_are("toggleable"),
            sliceable=self._objects_that_are("sliceable"),
            knives=self._objects_of("knifetype", "butterknifetype"),
            containers=self._objects_that_are("isreceptacleobject"),
            wanted=wanted,
            wanted_objects=self._wanted_objects(wanted),
            wanted_lamps=self._objects_of(wanted.lamp_type) & self._objects_that_are("toggleable"),
            wanted_receptacles=tuple(
                self.receptacles[name]
                for name, kind in sorted(self.problem.pairs("receptacletype"))
                if kind == wanted.receptacle_type
            ),
            start=self._start(),
        )

    def _start(self) -> State:
        (place,) = (self.places[place] for _, place in self.problem.pairs("atlocation"))
        return State(
            place=place,
            inside=self._rows("inreceptacle", self.receptacles),
            at=self._rows("objectatlocation", self.places),
            opened=_set_of(self.receptacles, self.problem.names("opened")),
            clean=self._objects_that_are("isclean"),
            hot=self._objects_that_are("ishot"),
            cool=self._objects_that_are("iscool"),
            toggled=self._objects_that_are("istoggled"),
            sliced=self._objects_that_are("issliced"),
        )

    def _rows(self, predicate: str, rows: Mapping[str, int]) -> int:
        found = 0
        for thing, row in self.problem.pairs(predicate):
            found |= 1 << rows[row] * len(self.objects) + self.objects[thing]
        return found

    def _place_of(self) -> tuple[int, ...]:
        if len(self.problem.facts.get("atlocation", ())) != 1:
            raise UnknownGameError("pddl_problem: (:init: atLocation: expected one agent at one place")
        places: dict[str, set[str]] = {name: set() for name in self.receptacles}
        for receptacle, place in self.problem.pairs("receptacleatlocation"):
            places[receptacle].add(place)
        for receptacle, found in places.items():
            if len(found) != 1:
                raise UnknownGameError(f"pddl_problem: {receptacle}: is at {len(found)} places; expected one")
        return tuple(self.places[next(iter(found))] for found in places.values())

    def _accepts(self) -> tuple[int, ...]:
        contained_types: dict[str, list[str]] = {}
        for receptacle_type, object_type in set(self.problem.pairs("cancontain")):
            contained_types.setdefault(receptacle_type, []).append(object_type)
        accepts = [0] * len(self.receptacles)
        for receptacle, kind in self.problem.pairs("receptacletype"):
            accepts[self.receptacles[receptacle]] |= self._objects_of(*contained_types.get(kind, ()))
        return tuple(accepts)

    def _contained(self) -> tuple[tuple[int, ...], ...]:
        inner: list[list[int]] = [[] for _ in self.objects]
        for thing, container in sorted(set(self.problem.pairs("inreceptacleobject"))):
            inner[self.objects[container]].append(self.objects[thing])
        return tuple(map(tuple, inner))

    def _wanted_objects(self, wanted: Wanted) -> int:
        found = self._objects_of(wanted.object_type)
        for property_name in wanted.able:
            found &= self._objects_that_are(property_name)
        return found

    def _objects_that_are(self, predicate: str) -> int:
        return _set_of(self.objects, self.problem.names(predicate))

    def _objects_of(self, *types: str) -> int:
        return _set_of(self.objects, (name for name, kind in self.problem.pairs("objecttype") if kind in types))

    def _receptacles_of(self, *types: str) -> int:
        names = (name for name, kind in self.problem.pairs("receptacletype") if kind in types)
        return _set_of(self.receptacles, names)


def _set_of(numbers: Mapping[str, int], names: Iterable[str]) -> int:
    found = 0
    for name in names:
        found |= 1 << numbers[name]
    return found
