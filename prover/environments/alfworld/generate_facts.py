"""Which receptacle takes which object, and what can be done with an object: facts of the official games.

A game file repeats them for the types that stand in its room.
"""

from collections.abc import Mapping
from typing import Final

_TAKES: Final[Mapping[str, str]] = {
    "ArmChair": "Book Box CellPhone Cloth CreditCard KeyChain Laptop Newspaper Pillow RemoteControl",
    "BathtubBasin": "Cloth DishSponge HandTowel SoapBar",
    "Bed": "BaseballBat BasketBall Book CellPhone Laptop Pillow TennisRacket",
    "Cabinet": (
        "Book Bowl Box CD Candle Cloth Cup DishSponge Glassbottle HandTowel Kettle Ladle Mug Newspaper Pan "
        "PepperShaker Plate Plunger Pot SaltShaker SoapBar SoapBottle SprayBottle TissueBox ToiletPaper Vase "
        "WateringCan WineBottle"
    ),
    "Cart": "Candle Cloth DishSponge HandTowel Plunger SoapBar SoapBottle SprayBottle TissueBox ToiletPaper",
    "CoffeeMachine": "Mug",
    "CoffeeTable": (
        "Book Bowl Box Candle CellPhone CreditCard KeyChain Laptop Newspaper Pen Pencil Plate RemoteControl Statue "
        "TissueBox Vase Watch WateringCan"
    ),
    "CounterTop": (
        "AlarmClock Apple Book Bowl Bread ButterKnife CD Candle CellPhone Cloth CreditCard Cup DishSponge Egg Fork "
        "Glassbottle HandTowel Kettle KeyChain Knife Ladle Laptop Lettuce Mug Pan Pen Pencil PepperShaker Plate "
        "Pot Potato RemoteControl SaltShaker SoapBar SoapBottle Spatula Spoon SprayBottle Statue TissueBox "
        "ToiletPaper Tomato Vase WineBottle"
    ),
    "Desk": (
        "AlarmClock BasketBall Book Bowl Box CD CellPhone Cloth CreditCard KeyChain Laptop Mug Pen Pencil "
        "RemoteControl Statue TennisRacket TissueBox Vase Watch WateringCan"
    ),
    "DiningTable": (
        "AlarmClock Apple BaseballBat Book Bowl Box Bread ButterKnife CD Candle CellPhone CreditCard Cup "
        "DishSponge Egg Fork Glassbottle Kettle KeyChain Knife Ladle Laptop Lettuce Mug Newspaper Pan Pen Pencil "
        "PepperShaker Plate Pot Potato RemoteControl SaltShaker SoapBottle Spatula Spoon SprayBottle Statue "
        "TissueBox Tomato Vase Watch WateringCan WineBottle"
    ),
    "Drawer": (
        "Book ButterKnife CD Candle CellPhone Cloth CreditCard DishSponge Fork HandTowel KeyChain Knife Ladle "
        "Newspaper Pen Pencil PepperShaker RemoteControl SaltShaker SoapBar SoapBottle Spatula Spoon SprayBottle "
        "TissueBox ToiletPaper Watch WateringCan"
    ),
    "Dresser": (
        "AlarmClock BasketBall Book Bowl Box CD Candle CellPhone Cloth CreditCard KeyChain Laptop Mug Newspaper "
        "Pen Pencil RemoteControl SprayBottle Statue TennisRacket TissueBox ToiletPaper Vase Watch WateringCan"
    ),
    "Fridge": "Apple Bowl Bread Cup Egg Glassbottle Lettuce Mug Pan Plate Pot Potato Tomato WineBottle",
    "GarbageCan": (
        "Apple Bread CD Cloth DishSponge Egg HandTowel Lettuce Newspaper Pen Pencil Potato SoapBar SoapBottle "
        "SprayBottle TissueBox ToiletPaper Tomato WineBottle"
    ),
    "HandTowelHolder": "HandTowel",
    "LaundryHamper": "Cloth",
    "Microwave": "Apple Bowl Bread Cup Egg Glassbottle Mug Plate Potato Tomato",
    "Ottoman": "Book Box CellPhone CreditCard KeyChain Laptop Newspaper Pillow RemoteControl",
    "Safe": "CD CellPhone CreditCard KeyChain Statue Vase",
    "Shelf": (
        "AlarmClock Book Bowl Box CD Candle CellPhone Cloth CreditCard Cup DishSponge Glassbottle HandTowel Kettle "
        "KeyChain Mug Newspaper Pen Pencil PepperShaker Plate Pot RemoteControl SaltShaker SoapBar SoapBottle "
        "SprayBottle Statue TissueBox ToiletPaper Vase Watch WateringCan WineBottle"
    ),
    "SideTable": (
        "AlarmClock Apple BaseballBat BasketBall Book Bowl Box Bread ButterKnife CD Candle CellPhone Cloth "
        "CreditCard Cup DishSponge Egg Fork HandTowel Kettle KeyChain Knife Laptop Lettuce Mug Newspaper Pan Pen "
        "Pencil PepperShaker Plate Pot Potato RemoteControl SaltShaker SoapBar SoapBottle Spatula Spoon "
        "SprayBottle Statue TennisRacket TissueBox ToiletPaper Tomato Vase Watch WateringCan WineBottle"
    ),
    "SinkBasin": (
        "Apple Bowl ButterKnife Cloth Cup DishSponge Egg Fork Glassbottle HandTowel Kettle Knife Ladle Lettuce Mug "
        "Pan Plate Pot Potato SoapBar Spatula Spoon Tomato"
    ),
    "Sofa": "Book Box CellPhone CreditCard KeyChain Laptop Newspaper Pillow RemoteControl",
    "StoveBurner": "Kettle Pan Pot",
    "TVStand": "TissueBox",
    "Toilet": "Candle Cloth DishSponge HandTowel SoapBar SoapBottle SprayBottle TissueBox ToiletPaper",
    "ToiletPaperHanger": "ToiletPaper",
    "TowelHolder": "Towel",
}

CAN_CONTAIN: Final[Mapping[str, frozenset[str]]] = {place: frozenset(words.split()) for place, words in _TAKES.items()}
"""Receptacle type -> the object types that may be put there."""

_CAN_BE: Final[Mapping[str, str]] = {
    "cleanable": (
        "Apple Bowl ButterKnife Cloth Cup DishSponge Egg Fork Kettle Knife Ladle Lettuce Mug Pan Plate Pot Potato "
        "SoapBar Spatula Spoon Tomato"
    ),
    "heatable": "Apple Bread Cup Egg Mug Plate Potato Tomato",
    "coolable": "Apple Bowl Bread Cup Egg Lettuce Mug Pan Plate Pot Potato Tomato WineBottle",
    "sliceable": "Apple Bread Egg Lettuce Potato Tomato",
    "toggleable": "DeskLamp FloorLamp",
    "isReceptacleObject": "Bowl Box Cup Mug Pan Plate Pot",
}

PROPERTIES: Final[Mapping[str, frozenset[str]]] = {name: frozenset(words.split()) for name, words in _CAN_BE.items()}
"""Predicate of the domain -> the object types that it holds for."""

_OBJECTS = (
    "Curtains SprayBottle Mirror HousePlant Watch TeddyBear WateringCan Bathtub LightSwitch Vase Candle Bread "
    "Statue HandTowel StoveKnob PaperTowelRoll Pan PepperShaker Painting CellPhone Plunger Spoon SaltShaker "
    "KeyChain Footstool Poster Television LaundryHamperLid Glassbottle AlarmClock WineBottle Bowl Sink TissueBox "
    "TennisRacket ToiletPaper ScrubBrush CreditCard Laptop Cloth Cup Chair BasketBall Kettle PaperTowel "
    "ShowerDoor BaseballBat Potato Pillow Lettuce RemoteControl Window DishSponge CD Boots Blinds Pen Newspaper "
    "Plate Mug ShowerGlass ToiletPaperRoll SoapBar FloorLamp SoapBottle Pot Pencil Spatula Towel Fork Ladle Knife "
    "Apple Box Tomato ButterKnife Egg Book DeskLamp"
)
OBJECT_TYPES: Final = tuple(_OBJECTS.split())
"""Every object type, in the order of the official files."""

_RECEPTACLES = (
    "Cabinet Shelf DiningTable TowelHolder PaintingHanger TVStand LaundryHamper Ottoman Safe CoffeeMachine "
    "CounterTop Toilet Fridge CoffeeTable SinkBasin GarbageCan BathtubBasin SideTable Cart Bed Desk Sofa ArmChair "
    "Microwave HandTowelHolder Toaster ToiletPaperHanger StoveBurner Drawer Dresser"
)
RECEPTACLE_TYPES: Final = tuple(_RECEPTACLES.split())
"""Every receptacle type, in the order of the official files."""
