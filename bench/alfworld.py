"""`make bench-alfworld`: our ALFWorld engine beside the stock one, in speed and, with --differential, in every answer.

    prover bench alfworld                                    speed, on a sample of games
    python -m bench.alfworld --differential --processes 2    all games in both releases, walk by walk (about 15 minutes)

Games come from --data-dir or $ALFWORLD_DATA (the folder that holds json_2.1.1); without either, from the generator. The
record is bench/results/alfworld.json. A run of one kind keeps what a run of the other kind found.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any, cast

from bench.alfworld_differential import Assignment, Comparison, compare_all
from bench.alfworld_games import games
from bench.alfworld_speed import Effort, Measurement, measure_all
from bench.record import RESULTS, commit, write_record
from prover.environments.alfworld.wording import RELEASES

_STEPS_A_WALK = 50
_SHOWN_DIFFERENCES = 20

Record = dict[str, Any]


def run(*, data_dir: Path | None = None, count: int | None = 12, first_seed: int = 0) -> Record:
    """Measures speed on `count` games in both releases, and writes the record."""
    effort = Effort()
    settings = {
        "games": "generated" if data_dir is None else "real",
        "count": count,
        "first_seed": first_seed,
        "commit": commit(),
        **asdict(effort),
    }
    measurements = list(measure_all(games(data_dir=data_dir, count=count, first_seed=first_seed), effort=effort))
    return _write("speed", settings=settings, headline=_speed(measurements), rows=[asdict(row) for row in measurements])


def run_differential(
    *,
    data_dir: Path | None = None,
    count: int | None = None,
    first_seed: int = 0,
    walks: int = 5,
    processes: int = 2,
    stock_planner: bool = False,
) -> Record:
    """Plays games in both engines, compares every answer, and writes the record."""
    settings = {
        "games": "generated" if data_dir is None else "real",
        "walks": walks,
        "steps_a_walk": _STEPS_A_WALK,
        "first_seed": first_seed,
        "walkthrough": "stock planner" if stock_planner else "our expert",
        "commit": commit(),
    }
    assignments = [
        Assignment(
            name=name,
            content=content,
            walks=walks,
            steps=_STEPS_A_WALK,
            seed=first_seed,
            stock_planner=stock_planner,
        )
        for name, content in games(data_dir=data_dir, count=count, first_seed=first_seed)
    ]
    comparisons = list(compare_all(assignments, processes=processes))
    rows = [_row(release, comparisons) for release in RELEASES]
    headline = {"compared_steps": sum(c.steps for c in comparisons), "differences": sum(r["differences"] for r in rows)}
    return _write("differential", settings=settings, headline=headline, rows=rows)


def main(argv: Sequence[str] | None = None) -> None:
    """The command line. Exits with 1 where the engines differ."""
    parser = argparse.ArgumentParser(prog="prover bench alfworld", description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("ALFWORLD_DATA"))
    parser.add_argument("--games", type=int, default=None, help="how many different games (speed: 12; else all)")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--differential", action="store_true", help="compare every answer instead of measuring speed")
    parser.add_argument("--walks", type=int, default=5, help="random walks a game")
    parser.add_argument("--stock-planner", action="store_true", help="walkthroughs by the stock engine's slow planner")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args(argv)
    data_dir = None if given.data_dir is None else Path(given.data_dir)
    if given.differential:
        record = run_differential(
            data_dir=data_dir,
            count=given.games,
            first_seed=given.first_seed,
            walks=given.walks,
            processes=given.processes,
            stock_planner=given.stock_planner,
        )
    else:
        record = run(data_dir=data_dir, count=given.games or 12, first_seed=given.first_seed)
    sys.stdout.write(json.dumps(record["headline"]) + "\n")
    sys.exit(1 if record["headline"].get("differences") else 0)


def _speed(measurements: Sequence[Measurement]) -> dict[str, float]:
    """Ratios are of total times over all games; the rest are medians or worst cases, as named."""
    return {
        "steps_ratio": round(sum(m.stock_step_s for m in measurements) / sum(m.step_s for m in measurements), 1),
        "restore_ratio": round(sum(m.stock_restore_s for m in measurements) / sum(m.restore_s for m in measurements)),
        "steps_per_second": round(len(measurements) / sum(m.step_s for m in measurements)),
        "stock_steps_per_second": round(len(measurements) / sum(m.stock_step_s for m in measurements), 1),
        "load_ms": round(1e3 * median(m.load_s for m in measurements), 2),
        "stock_load_ms": round(1e3 * median(m.stock_load_s for m in measurements), 1),
        "snapshot_us": round(1e6 * median(m.snapshot_s for m in measurements), 2),
        "restore_us": round(1e6 * median(m.restore_s for m in measurements), 2),
        "largest_forks_mb": round(max(m.forks_mb for m in measurements), 1),
    }


def _row(release: str, comparisons: Iterable[Comparison]) -> Record:
    """One release's comparisons in figures, with the first differences in full."""
    found = [comparison for comparison in comparisons if comparison.release == release]
    differences = [(c.name, difference) for c in found for difference in c.differences]
    return {
        "release": release,
        "games": len(found),
        "steps": sum(c.steps for c in found),
        "accepted": sum(c.accepted for c in found),
        "walkthroughs_that_win": sum(c.solved for c in found),
        "wins": sum(c.wins for c in found),
        "differences": len(differences),
        "shown": [{"game": name, **asdict(shown)} for name, shown in differences[:_SHOWN_DIFFERENCES]],
    }


def _write(kind: str, *, settings: Record, headline: Record, rows: Sequence[Record]) -> Record:
    """Puts a run into the record: its settings under its kind, its headline and rows beside those of the other kind."""
    path = RESULTS / "alfworld.json"
    old = cast("Record", json.loads(path.read_text())) if path.is_file() else {}
    kept = [row for row in old.get("rows", []) if row["kind"] != kind]
    write_record(
        "alfworld",
        settings={**old.get("settings", {}), kind: settings},
        headline={**old.get("headline", {}), **headline},
        rows=kept + [{"kind": kind, **row} for row in rows],
    )
    return cast("Record", json.loads(path.read_text()))


if __name__ == "__main__":
    main()
