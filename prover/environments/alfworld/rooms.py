"""What the rooms of ALFWorld are made of: furniture, things, and which thing is found where.

The tables are facts about the official games, counted over 340 of them. `generate` draws rooms from them and `expert`
searches by them. Words are the types of the game files: "SinkBasin", "ButterKnife".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Size = Literal["small", "medium", "large"]
SIZES: Final[tuple[Size, ...]] = ("small", "medium", "large")


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """One kind of room.

    Attributes:
        furniture: type -> (fewest, most) receptacles of it in a small, a medium and a large room.
        things: type of object -> the receptacle types it is found in, with how often.
        fixtures: objects that cannot be picked up and stand in no receptacle.
    """

    furniture: Mapping[str, tuple[tuple[int, int], tuple[int, int], tuple[int, int]]]
    things: Mapping[str, Mapping[str, int]]
    fixtures: tuple[str, ...]


def _table(rows: str) -> dict[str, dict[str, int]]:
    """Reads lines of `Thing: Place 3, Place 2`."""
    table: dict[str, dict[str, int]] = {}
    for row in rows.strip().splitlines():
        thing, _, places = row.partition(":")
        pairs = [place.split() for place in places.split(",")]
        table[thing.strip()] = {place: int(weight) for place, weight in pairs}
    return table


_ONE = ((1, 1), (1, 1), (1, 1))
_MAYBE = ((0, 0), (0, 1), (0, 1))

KITCHEN: Final = Room(
    furniture={
        "Fridge": _ONE,
        "Microwave": _ONE,
        "SinkBasin": _ONE,
        "GarbageCan": _ONE,
        "CoffeeMachine": _ONE,
        "Toaster": _MAYBE,
        "CounterTop": ((1, 1), (1, 2), (2, 3)),
        "DiningTable": ((0, 1), (0, 1), (1, 2)),
        "SideTable": _MAYBE,
        "StoveBurner": ((0, 1), (2, 2), (4, 4)),
        "Shelf": ((0, 0), (0, 1), (0, 3)),
        "Cabinet": ((1, 2), (2, 4), (5, 9)),
        "Drawer": ((1, 2), (1, 3), (3, 8)),
    },
    things=_table("""
        Apple: Fridge 7, CounterTop 6, Microwave 3, DiningTable 4, GarbageCan 3, SinkBasin 3, SideTable 1
        Bowl: Cabinet 10, Fridge 6, CounterTop 6, DiningTable 4, Microwave 1, SinkBasin 1, Shelf 2
        Bread: CounterTop 12, DiningTable 7, Fridge 3, SideTable 1
        ButterKnife: CounterTop 10, DiningTable 8, Drawer 3, SinkBasin 2
        Cup: Cabinet 7, CounterTop 6, Fridge 5, DiningTable 4, SinkBasin 3, Microwave 2, Shelf 2
        DishSponge: CounterTop 8, Cabinet 6, DiningTable 5, Drawer 4, SinkBasin 2, GarbageCan 1
        Egg: Fridge 7, CounterTop 6, SinkBasin 4, GarbageCan 3, Microwave 3, DiningTable 3
        Fork: CounterTop 10, DiningTable 7, Drawer 6, SinkBasin 2
        Kettle: StoveBurner 5, CounterTop 4, Cabinet 3, DiningTable 1
        Knife: CounterTop 10, DiningTable 7, Drawer 5, SinkBasin 1
        Ladle: CounterTop 6, Drawer 3, Cabinet 2, DiningTable 2
        Lettuce: CounterTop 9, DiningTable 8, Fridge 6, SinkBasin 1
        Mug: CounterTop 8, CoffeeMachine 4, Fridge 3, Cabinet 5, DiningTable 4, SinkBasin 3, Microwave 3, Shelf 1
        Pan: StoveBurner 8, CounterTop 8, Cabinet 2, DiningTable 1, Fridge 1
        PepperShaker: CounterTop 9, Cabinet 8, Drawer 5, DiningTable 4, Shelf 2, SideTable 1
        Plate: Cabinet 10, CounterTop 7, DiningTable 5, Fridge 2, SinkBasin 1, Shelf 1, Microwave 1
        Pot: StoveBurner 9, CounterTop 4, Fridge 1, DiningTable 2, Cabinet 1
        Potato: CounterTop 9, Fridge 7, DiningTable 4, Microwave 3, SinkBasin 3, GarbageCan 2, SideTable 1
        SaltShaker: Cabinet 8, CounterTop 7, DiningTable 6, Drawer 5, Shelf 1, SideTable 1
        SoapBottle: CounterTop 9, Cabinet 7, DiningTable 6, GarbageCan 3, Shelf 1, SideTable 1
        Spatula: CounterTop 10, DiningTable 7, Drawer 6, SinkBasin 2
        Spoon: CounterTop 9, Drawer 7, DiningTable 6, SinkBasin 4
        Tomato: CounterTop 9, Fridge 8, DiningTable 5, GarbageCan 2, SinkBasin 2, SideTable 1
        WineBottle: CounterTop 5, DiningTable 4, Cabinet 3, GarbageCan 2, Shelf 1
    """),
    fixtures=("Window", "LightSwitch", "Sink", "Chair", "StoveKnob", "Curtains"),
)

LIVING_ROOM: Final = Room(
    furniture={
        "Sofa": ((1, 1), (1, 1), (1, 2)),
        "ArmChair": ((1, 1), (1, 2), (1, 2)),
        "CoffeeTable": ((0, 1), (1, 1), (1, 2)),
        "DiningTable": ((0, 0), (0, 1), (0, 1)),
        "SideTable": ((1, 1), (1, 2), (2, 4)),
        "TVStand": _MAYBE,
        "GarbageCan": _ONE,
        "Dresser": ((0, 0), (0, 1), (0, 1)),
        "Ottoman": _MAYBE,
        "Shelf": ((0, 1), (1, 3), (3, 8)),
        "Drawer": ((1, 2), (2, 4), (5, 9)),
        "Cabinet": ((0, 1), (0, 2), (0, 4)),
    },
    things=_table("""
        Book: Dresser 4, SideTable 4, CoffeeTable 4, Sofa 4, DiningTable 2, Drawer 2, ArmChair 2
        Box: DiningTable 7, Sofa 6, CoffeeTable 5, Dresser 4, SideTable 3, ArmChair 1
        CellPhone: ArmChair 5, Drawer 3, Dresser 3, CoffeeTable 2, SideTable 2, DiningTable 1, Sofa 1
        CreditCard: CoffeeTable 9, Sofa 7, SideTable 6, ArmChair 6, Drawer 4, DiningTable 3, Shelf 3, Dresser 2
        KeyChain: Sofa 7, Drawer 6, SideTable 6, CoffeeTable 5, ArmChair 5, DiningTable 5, Dresser 3, Shelf 2
        Laptop: DiningTable 8, Sofa 8, CoffeeTable 5, SideTable 3, ArmChair 3
        Newspaper: Sofa 6, DiningTable 4, CoffeeTable 4, SideTable 3, Shelf 3, ArmChair 2, Drawer 2, Dresser 1
        Pillow: Sofa 9, ArmChair 3, Ottoman 1
        RemoteControl: Sofa 8, CoffeeTable 7, ArmChair 4, Dresser 4, SideTable 3, Drawer 3, DiningTable 2, Shelf 2
        Statue: DiningTable 7, SideTable 6, CoffeeTable 6, Shelf 6, Dresser 2
        TissueBox: DiningTable 6, SideTable 5, CoffeeTable 4, TVStand 1, Dresser 2, Shelf 1
        Vase: Shelf 8, DiningTable 4, CoffeeTable 3, SideTable 3, Dresser 2
        Watch: CoffeeTable 5, SideTable 4, DiningTable 4, Drawer 3, Shelf 3, Dresser 2
        DeskLamp: SideTable 10
        HousePlant: SideTable 5, CoffeeTable 4
    """),
    fixtures=("Window", "LightSwitch", "Painting", "FloorLamp", "Curtains", "Chair"),
)

BEDROOM: Final = Room(
    furniture={
        "Bed": _ONE,
        "Desk": ((1, 1), (1, 1), (1, 2)),
        "SideTable": ((0, 1), (1, 1), (1, 2)),
        "Dresser": ((0, 0), (0, 1), (1, 1)),
        "ArmChair": ((0, 0), (0, 1), (0, 1)),
        "GarbageCan": _ONE,
        "LaundryHamper": _MAYBE,
        "Safe": _MAYBE,
        "Shelf": ((0, 2), (1, 3), (3, 6)),
        "Drawer": ((2, 3), (2, 5), (5, 9)),
        "Cabinet": ((0, 0), (0, 1), (0, 3)),
    },
    things=_table("""
        AlarmClock: Desk 6, SideTable 5, Dresser 4, Shelf 4
        Book: Bed 8, Desk 5, Drawer 3, Cabinet 1, SideTable 1, Dresser 1
        Bowl: Desk 6, Shelf 4, SideTable 1, Dresser 1
        CD: Drawer 6, Desk 4, Dresser 3, SideTable 3, Shelf 2, GarbageCan 2
        CellPhone: Bed 6, Drawer 4, Desk 4, Dresser 3, SideTable 2, Shelf 2, ArmChair 1
        CreditCard: Drawer 8, SideTable 4, Shelf 3, Desk 3, Dresser 3, ArmChair 1
        KeyChain: Drawer 6, Desk 5, Dresser 3, Shelf 3, SideTable 2, Safe 3, ArmChair 1
        Laptop: Bed 9, Desk 4, ArmChair 1, Dresser 1
        Mug: Desk 5, SideTable 3, Shelf 2, Dresser 2, Cabinet 1
        Pen: Desk 7, Dresser 4, SideTable 4, Drawer 4, Shelf 3, GarbageCan 1
        Pencil: Desk 6, SideTable 5, Dresser 4, Drawer 4, Shelf 3, GarbageCan 2
        Pillow: Bed 12, ArmChair 1
        Statue: Shelf 5, Dresser 4, SideTable 1
        TissueBox: Desk 5, SideTable 4, Shelf 2, Drawer 1
        DeskLamp: Desk 7, SideTable 7, Dresser 4, Shelf 1
        HousePlant: Shelf 4, Desk 3, Dresser 1
    """),
    fixtures=("Window", "LightSwitch", "Blinds", "Mirror", "Painting", "Chair"),
)

BATHROOM: Final = Room(
    furniture={
        "SinkBasin": _ONE,
        "Toilet": _ONE,
        "GarbageCan": _ONE,
        "HandTowelHolder": _ONE,
        "TowelHolder": _ONE,
        "ToiletPaperHanger": _ONE,
        "BathtubBasin": _MAYBE,
        "Cart": _MAYBE,
        "CounterTop": ((0, 1), (1, 1), (1, 2)),
        "Shelf": ((0, 1), (0, 2), (1, 4)),
        "Drawer": ((0, 1), (0, 3), (2, 5)),
        "Cabinet": ((1, 2), (2, 4), (4, 6)),
    },
    things=_table("""
        Candle: Toilet 6, CounterTop 5, Cabinet 3, Shelf 2, Drawer 2, Cart 1
        Cloth: BathtubBasin 5, Cabinet 5, CounterTop 3, Drawer 3, SinkBasin 2, Shelf 2, Toilet 1, Cart 1
        HandTowel: HandTowelHolder 9, CounterTop 1
        SoapBar: CounterTop 6, SinkBasin 4, Toilet 3, Cabinet 3, Shelf 2, Drawer 2, BathtubBasin 2, GarbageCan 1
        SoapBottle: CounterTop 6, Toilet 5, Cabinet 5, Shelf 2, GarbageCan 2, Drawer 1, Cart 1
        SprayBottle: CounterTop 6, Toilet 5, Cabinet 4, GarbageCan 2, Shelf 2, Cart 2, Drawer 1
        TissueBox: Shelf 5, CounterTop 4, Drawer 2, Cart 1, Cabinet 1, Toilet 1
        ToiletPaper: Toilet 5, Cabinet 4, CounterTop 3, ToiletPaperHanger 3, Shelf 2, GarbageCan 2, Drawer 2
        Towel: TowelHolder 9
    """),
    fixtures=("Mirror", "Sink", "LightSwitch", "Window", "ShowerDoor"),
)

ROOMS: Final[Mapping[str, Room]] = {
    "kitchen": KITCHEN,
    "living room": LIVING_ROOM,
    "bedroom": BEDROOM,
    "bathroom": BATHROOM,
}

OPENABLE: Final = frozenset({"Drawer", "Safe", "Cabinet", "Fridge", "Microwave"})
