"""Games without a download: rooms of the official kind, drawn from a seed, in the official file format.

    game = generate("pick_heat_then_place_in_recep", 7)
    Path("game.tw-pddl").write_text(json.dumps(game))  # the stock engine plays it as well as ours

`Difficulty` says how large the room is and how well things are hidden. The same arguments always give the same game, on
every machine. The same seed in the two releases is the same room with the same goal in other words. A game is solvable
by construction, and its `walkthrough` shows how. Training uses seeds of TRAIN_SEEDS, tests those of TEST_SEEDS: the
seed stands in the problem's name, so no game is in both.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from prover.environments.alfworld.expert_plan import plan
from prover.environments.alfworld.generate_facts import CAN_CONTAIN, PROPERTIES
from prover.environments.alfworld.generate_problem import House, goal_text, problem_text
from prover.environments.alfworld.generate_room import Difficulty, RoomBuilder
from prover.environments.alfworld.rooms import ROOMS, Room
from prover.environments.alfworld.wording import RELEASES, Release

TRAIN_SEEDS: Final = range(1_000_000)
TEST_SEEDS: Final = range(1_000_000, 2_000_000)

_LAMP = "DeskLamp"
_ANY_ROOM = tuple(ROOMS)


@dataclass(frozen=True, slots=True, kw_only=True)
class _TaskType:
    """`needs` is a property of the object; `tool` the receptacle that treats it, which then is no target."""

    rooms: tuple[str, ...]
    wordings: tuple[str, str]
    needs: str | None = None
    tool: str = ""


_TASK_TYPES: Final[Mapping[str, _TaskType]] = {
    "pick_and_place_simple": _TaskType(
        rooms=_ANY_ROOM, wordings=("put a {thing} in {target}.", "put some {thing} on {target}.")
    ),
    "look_at_obj_in_light": _TaskType(
        rooms=("living room", "bedroom"),
        wordings=("look at {thing} under the {target}.", "examine the {thing} with the {target}."),
    ),
    "pick_clean_then_place_in_recep": _TaskType(
        rooms=("kitchen", "bathroom"),
        wordings=("put a clean {thing} in {target}.", "clean some {thing} and put it in {target}."),
        needs="cleanable",
        tool="SinkBasin",
    ),
    "pick_heat_then_place_in_recep": _TaskType(
        rooms=("kitchen",),
        wordings=("put a hot {thing} in {target}.", "heat some {thing} and put it in {target}."),
        needs="heatable",
        tool="Microwave",
    ),
    "pick_cool_then_place_in_recep": _TaskType(
        rooms=("kitchen",),
        wordings=("put a cool {thing} in {target}.", "cool some {thing} and put it in {target}."),
        needs="coolable",
        tool="Fridge",
    ),
    "pick_two_obj_and_place": _TaskType(
        rooms=_ANY_ROOM, wordings=("put two {thing} in {target}.", "find two {thing} and put them in {target}.")
    ),
}

TASK_TYPES: Final = tuple(_TASK_TYPES)


DEFAULT_DIFFICULTY: Final = Difficulty()


def generate(
    task_type: str, seed: int, *, release: Release = "current", difficulty: Difficulty = DEFAULT_DIFFICULTY
) -> dict[str, object]:
    """The content of a `game.tw-pddl` file: `pddl_domain`, `grammar`, `pddl_problem`, `solvable`, `walkthrough`.

    Raises ValueError for an unknown task type or release or a negative seed.
    """
    if task_type not in _TASK_TYPES:
        raise ValueError(f"task_type: was {task_type!r}; expected one of {', '.join(TASK_TYPES)}")
    if seed < 0:
        raise ValueError(f"seed: was {seed}; expected 0 or more")
    domain, grammar = release_texts(release)
    rng = random.Random(f"{task_type}/{seed}")
    house, thing, target = _draw(rng, task_type, difficulty)
    sentence = rng.choice(_TASK_TYPES[task_type].wordings).format(thing=thing.lower(), target=target.lower())
    game: dict[str, object] = {
        "pddl_domain": domain,
        "grammar": grammar.replace("UNKNOWN GOAL.", sentence),
        "pddl_problem": problem_text(
            f"generated_{task_type}_{seed}", house, goal_text(task_type, thing=thing, target=target)
        ),
        "solvable": True,
    }
    game["walkthrough"] = plan(game)
    return game


@cache
def release_texts(release: Release) -> tuple[str, str]:
    """The domain and the grammar of a release of ALFWorld, word for word. See data/NOTICE."""
    if release not in RELEASES:
        raise ValueError(f"release: was {release!r}; expected one of {', '.join(RELEASES)}")
    folder = files("prover.environments.alfworld") / "data"
    return (folder / f"{release}.pddl").read_text("utf-8"), (folder / f"{release}.twl2").read_text("utf-8")


def _draw(rng: random.Random, task_type: str, difficulty: Difficulty) -> tuple[House, str, str]:
    """A room, the type of the object that the task is about, and the type of where it goes."""
    room = ROOMS[rng.choice(_TASK_TYPES[task_type].rooms)]
    builder = RoomBuilder(rng, room, difficulty)
    candidates = _candidates(task_type, room, builder.present)
    thing = rng.choice(sorted(candidates))
    target = rng.choice(candidates[thing])
    two = task_type == "pick_two_obj_and_place"
    avoid = (target, _TASK_TYPES[task_type].tool)
    for _ in range((2 if two else 1) + (rng.random() < 0.35)):
        builder.add(thing, avoid=avoid)
    if target == _LAMP:
        builder.add(_LAMP)
    others = sorted(kind for kind in room.things if kind not in (thing, _LAMP) and builder.places(kind))
    for _ in range(difficulty.distractors):
        builder.add(rng.choice(others))
    return builder.house(), thing, target


def _candidates(task_type: str, room: Room, present: Sequence[str]) -> dict[str, list[str]]:
    """Object type -> where it may be asked to go, such that it can be found somewhere else at first."""
    rules = _TASK_TYPES[task_type]
    candidates: dict[str, list[str]] = {}
    for thing, places in room.things.items():
        if rules.needs is not None and thing not in PROPERTIES[rules.needs]:
            continue
        sources = set(places).intersection(present) - {rules.tool}
        targets = [kind for kind in present if thing in CAN_CONTAIN.get(kind, ()) and kind != rules.tool]
        targets = [kind for kind in targets if sources - {kind}]
        if task_type == "look_at_obj_in_light":
            portable = any(thing in takes for takes in CAN_CONTAIN.values())
            targets = [_LAMP] if sources and portable else []
        if targets:
            candidates[thing] = targets
    return candidates
