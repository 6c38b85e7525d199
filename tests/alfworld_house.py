"""A kitchen made by hand, small enough to know by heart, in which every oddity of ALFWorld's rules can be met.

place 1: countertop 1 and, at the same place, cabinet 1 (closed)     place 4: fridge 1 (closed)
place 2: drawer 1 (closed)                                           place 5: sinkbasin 1
place 3: microwave 1 (closed)                                        place 6: sidetable 1
"""

from prover.environments.alfworld.generate import release_texts
from prover.environments.alfworld.wording import Release

_RECEPTACLES = {
    "CounterTop_bar_1": "loc_bar_1",
    "Cabinet_bar_1": "loc_bar_1",
    "Drawer_bar_1": "loc_bar_2",
    "Microwave_bar_1": "loc_bar_3",
    "Fridge_bar_1": "loc_bar_4",
    "Sink_bar_1_bar_SinkBasin": "loc_bar_5",
    "SideTable_bar_1": "loc_bar_6",
}
_CLOSED = ("Cabinet_bar_1", "Drawer_bar_1", "Microwave_bar_1", "Fridge_bar_1")
_CONTENTS = {
    "CounterTop_bar_1": ("Mug_bar_1", "Apple_bar_1", "Knife_bar_1", "Box_bar_1"),
    "Cabinet_bar_1": ("Mug_bar_2",),
    "Drawer_bar_1": ("DeskLamp_bar_1", "Watch_bar_1", "Egg_bar_1"),
    "SideTable_bar_1": ("Watch_bar_1", "Watch_bar_2"),
}
_PROPERTIES = {
    "pickupable": ("Mug_bar_1", "Mug_bar_2", "Apple_bar_1", "Knife_bar_1", "Box_bar_1", "Watch_bar_1", "Watch_bar_2"),
    "cleanable": ("Mug_bar_1", "Mug_bar_2", "Apple_bar_1", "Knife_bar_1"),
    "heatable": ("Mug_bar_1", "Mug_bar_2", "Apple_bar_1"),
    "coolable": ("Mug_bar_1", "Mug_bar_2", "Apple_bar_1"),
    "sliceable": ("Apple_bar_1", "Egg_bar_1"),
    "toggleable": ("DeskLamp_bar_1",),
    "isReceptacleObject": ("Box_bar_1",),
}
_OBJECT_TYPES = ("Mug", "Apple", "Knife", "Box", "DeskLamp", "Watch", "Egg")
_RECEPTACLE_TYPES = ("CounterTop", "Cabinet", "Drawer", "Microwave", "Fridge", "SinkBasin", "SideTable")

HOT_MUG_IN_CABINET = """(:goal (and (exists (?r - receptacle) (exists (?o - object) (and (heatable ?o)
    (objectType ?o MugType) (receptacleType ?r CabinetType) (isHot ?o) (inReceptacle ?o ?r))))))"""

TWO_MUGS_ON_SIDETABLE = """(:goal (and (exists (?r - receptacle) (exists (?o1 - object) (and
    (objectType ?o1 MugType) (receptacleType ?r SideTableType) (inReceptacle ?o1 ?r) (exists (?o2 - object) (and
    (not (= ?o1 ?o2)) (objectType ?o2 MugType) (receptacleType ?r SideTableType) (inReceptacle ?o2 ?r))))))))"""

WATCH_BY_THE_LAMP = """(:goal (and (exists (?ot - object ?r - receptacle ?a - agent ?l - location) (and
    (objectType ?ot DeskLampType) (toggleable ?ot) (isToggled ?ot) (receptacleAtLocation ?r ?l) (atLocation ?a ?l)
    (inReceptacle ?ot ?r))) (exists (?o - object ?a - agent) (and (objectType ?o WatchType) (holds ?a ?o)))))"""


def house(
    *, release: Release = "current", goal: str = HOT_MUG_IN_CABINET, facts: str = "", task: str = "do it."
) -> dict[str, object]:
    """The content of the house's game.tw-pddl file. `facts` are added to the start."""
    domain, grammar = release_texts(release)
    return {
        "pddl_domain": domain,
        "grammar": grammar.replace("UNKNOWN GOAL.", task),
        "pddl_problem": _problem(goal, facts),
        "solvable": True,
    }


def _problem(goal: str, facts: str) -> str:
    things = sorted({thing for inside in _CONTENTS.values() for thing in inside})
    places = [f"loc_bar_{number}" for number in range(7)]
    declared = ["agent1 - agent"]
    declared += [f"{name} - object" for name in things] + [f"{name} - receptacle" for name in _RECEPTACLES]
    declared += [f"{name} - location" for name in places] + [f"{name}Type - otype" for name in _OBJECT_TYPES]
    declared += [f"{name}Type - rtype" for name in _RECEPTACLE_TYPES]
    init = ["(atLocation agent1 loc_bar_0)"]
    init += [f"(objectType {name} {name.split('_')[0]}Type)" for name in things]
    init += [
        f"(receptacleType {name} {name.removeprefix('Sink_bar_1_bar_').split('_')[0]}Type)" for name in _RECEPTACLES
    ]
    init += [f"(receptacleAtLocation {name} {place})" for name, place in _RECEPTACLES.items()]
    init += [f"(openable {name})" for name in _CLOSED]
    init += [
        f"(canContain {place}Type {thing}Type)" for place in _RECEPTACLE_TYPES for thing in ("Mug", "Apple", "Watch")
    ]
    init += [f"({name} {thing})" for name, holders in _PROPERTIES.items() for thing in holders]
    for receptacle, inside in _CONTENTS.items():
        init += [f"(inReceptacle {thing} {receptacle})" for thing in inside]
        init += [f"(objectAtLocation {thing} {_RECEPTACLES[receptacle]})" for thing in inside if thing != "Watch_bar_1"]
    init += ["(objectAtLocation Watch_bar_1 loc_bar_2)", facts]
    lines = "\n".join(
        ("(define (problem house)", "(:domain alfred)", "(:objects", *declared, ")", "(:init", *init, ")")
    )
    return f"{lines}\n{goal}\n)\n"
