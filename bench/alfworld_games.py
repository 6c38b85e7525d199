"""The games that the ALFWorld benchmark plays: real ones where there is a data folder, generated ones where not."""

import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from bench.alfworld_stock import current_release
from prover.environments.alfworld.generate import TASK_TYPES, generate
from prover.environments.alfworld.release import identify
from prover.environments.alfworld.wording import RELEASES

NamedGame = tuple[str, Mapping[str, object]]


def games(*, data_dir: Path | None, count: int | None, first_seed: int) -> Iterator[NamedGame]:
    """Each game twice, in either release. `count`: how many different ones, drawn with `first_seed`; None: all."""
    if data_dir is None:
        yield from _generated(count=count or len(TASK_TYPES), first_seed=first_seed)
        return
    root = data_dir / "json_2.1.1" if (data_dir / "json_2.1.1").is_dir() else data_dir
    paths = sorted(root.glob("**/game.tw-pddl"))
    if not paths:
        raise ValueError(f"data_dir: no game.tw-pddl below {root.name}; expected the folder that holds json_2.1.1")
    drawn = paths if count is None or count >= len(paths) else random.Random(first_seed).sample(paths, count)
    for path in drawn:
        content = cast("dict[str, object]", json.loads(path.read_bytes()))
        name = str(path.parent.relative_to(root))
        yield name, content
        release, task = identify(domain=str(content["pddl_domain"]), grammar=str(content["grammar"]))
        if release != "current":
            yield name, current_release(content, task=task)


def _generated(*, count: int, first_seed: int) -> Iterator[NamedGame]:
    for number in range(count):
        task_type, seed = TASK_TYPES[number % len(TASK_TYPES)], first_seed + number
        for release in RELEASES:
            yield f"generated/{task_type}/{seed}", generate(task_type, seed, release=release)
