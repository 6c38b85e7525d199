"""Furnishes one room and fills it: the furniture of a kind of room, things where such things lie."""

import random
from collections.abc import Collection
from dataclasses import dataclass

from prover.environments.alfworld.generate_problem import House, Receptacle, Thing
from prover.environments.alfworld.rooms import OPENABLE, SIZES, Room, Size

_BASINS = {"SinkBasin": "Sink", "BathtubBasin": "Bathtub"}
"""Basins are named after what they are part of: Sink|x|y|z|SinkBasin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difficulty:
    """How hard a game is to search.

    Attributes:
        size: how much furniture: about 9, 14 or 25 receptacles.
        distractors: how many objects lie about that the task does not ask for.
        hidden: the share of objects that lie in closed receptacles, where the room has any that suit them.
        shared_places: the share of drawers and cabinets that are reached from the same place as the one before; most
            official games have some.
    """

    size: Size = "medium"
    distractors: int = 12
    hidden: float = 0.3
    shared_places: float = 0.0

    def __post_init__(self) -> None:
        if self.size not in SIZES:
            raise ValueError(f"difficulty.size: was {self.size!r}; expected one of {', '.join(SIZES)}")
        if not 0 <= self.distractors <= 60:
            raise ValueError(f"difficulty.distractors: was {self.distractors}; expected 0 to 60")
        for name, share in (("hidden", self.hidden), ("shared_places", self.shared_places)):
            if not 0.0 <= share <= 1.0:
                raise ValueError(f"difficulty.{name}: was {share}; expected 0 to 1")


class RoomBuilder:
    """Draws one room. Single use: make it, `add` things, take the `house`."""

    def __init__(self, rng: random.Random, room: Room, difficulty: Difficulty) -> None:
        self._rng = rng
        self._room = room
        self._difficulty = difficulty
        self._taken: set[str] = set()
        self._receptacles: list[Receptacle] = []
        self._things: list[Thing] = []
        self._furnish()

    @property
    def present(self) -> list[str]:
        """The types of receptacle that stand in the room."""
        return list(dict.fromkeys(receptacle.type for receptacle in self._receptacles))

    def places(self, kind: str, *, avoid: Collection[str] = ()) -> list[Receptacle]:
        """Where an object of that type may lie, receptacle types in `avoid` left out."""
        suited = self._room.things[kind]
        return [place for place in self._receptacles if place.type in suited and place.type not in avoid]

    def add(self, kind: str, *, avoid: Collection[str] = ()) -> None:
        """Lays one object of that type somewhere: likelier where such things are found, hidden as often as asked."""
        places = self.places(kind, avoid=avoid)
        hide = self._rng.random() < self._difficulty.hidden
        places = [place for place in places if (place.type in OPENABLE) == hide] or places
        weights = self._room.things[kind]
        # The weight is that of a type; its receptacles share it.
        shares = [weights[place.type] / sum(other.type == place.type for other in places) for place in places]
        place = self._rng.choices(places, shares)[0]
        self._things.append(Thing(type=kind, id=self._identifier(kind), location=place.location, inside=place))

    def house(self) -> House:
        """The room as it stands, with its fixtures."""
        for fixture in self._room.fixtures:
            if self._rng.random() < 0.7:
                location = self._location()
                self._things.append(Thing(type=fixture, id=self._identifier(fixture), location=location, inside=None))
        return House(receptacles=tuple(self._receptacles), things=tuple(self._things), start=self._location())

    def _furnish(self) -> None:
        size = SIZES.index(self._difficulty.size)
        for kind, ranges in self._room.furniture.items():
            previous: str | None = None
            for _ in range(self._rng.randint(*ranges[size])):
                shares = kind in OPENABLE and previous is not None
                if previous is None or not (shares and self._rng.random() < self._difficulty.shared_places):
                    previous = self._location()
                identifier = self._identifier(_BASINS.get(kind, kind))
                if kind in _BASINS:
                    identifier += f"_bar_{kind}"
                self._receptacles.append(Receptacle(type=kind, id=identifier, location=previous))

    def _identifier(self, kind: str) -> str:
        """Type|x|y|z, in the spelling that PDDL allows: a position in metres, never given twice."""
        while True:
            x, y, z = (self._coordinate(low, high) for low, high in ((-400, 400), (0, 200), (-400, 400)))
            identifier = f"{kind}_bar_{x}_bar_{y}_bar_{z}"
            if identifier not in self._taken:
                self._taken.add(identifier)
                return identifier

    def _coordinate(self, low: int, high: int) -> str:
        centimetres = self._rng.randint(low, high)
        sign = {-1: "_minus_", 0: "", 1: "_plus_"}[(centimetres > 0) - (centimetres < 0)]
        return f"{sign}{abs(centimetres) // 100:02d}_dot_{abs(centimetres) % 100:02d}"

    def _location(self) -> str:
        """loc|x|z|turn|tilt: where one stands, which way one faces; never given twice."""
        while True:
            x, z = (str(self._rng.randint(-20, 20)).replace("-", "_minus_") for _ in range(2))
            location = f"loc_bar_{x}_bar_{z}_bar_{self._rng.randrange(4)}_bar_{self._rng.choice((0, 30, 45, 60))}"
            if location not in self._taken:
                self._taken.add(location)
                return location
