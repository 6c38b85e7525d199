"""`make bench-scaling`: do more workers verify so much more, and does one coordinator suffice?

The whole system runs on this machine, as in production; only the engine is simulated (bench/simulated_engine.py): a
turn takes about a second, however many are under way, as with an engine that has room. Waiting costs no processor, so
eight workers fit on two cores, and the figures say what the system itself loses: messages, rounds that end, decisions,
places at the engine that nobody takes. A worker has few places at the engine for that reason: with more of them, or
with faster turns, two cores would be measured. The record has the processor share of every process beside each rate,
and `engine_late_ms`, by how much the engine's own clock was late: the figures count while the cores have time.

    efficiency_N = continuations a second with N workers / (N * those with one worker)
    turn_efficiency_N: the same by the engine's turns, which are many more and so less noisy
    places_used_share: engine time that was asked for, as a share of all the workers' places

Second, a burst (bench/scaling_burst.py): 1,000 analyses under way at once, with one coordinator and with two.

    prover bench scaling            # 11 minutes on two cores
    prover bench scaling --quick    # some minutes
"""

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.figures import efficiencies
from bench.record import write_record
from bench.scaling_burst import with_coordinators
from bench.scaling_workers import Load, with_workers

_QUICK = {"workers": "1,8", "window_s": 20.0, "warm_up_s": 12.0, "burst": 100, "record": "scaling_quick"}


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the record; prints a table for each part, the headline last."""
    options = _options(argv)
    rows = asyncio.run(_measure(options, Console(stderr=True)))
    headline = headline_of(rows)
    write_record(options.record, settings=vars(options), headline=headline, rows=rows)
    console = Console()
    for title, key in (("the same work for each worker", "continuations_per_s"), ("a burst", "intake_per_s")):
        console.print(_table(title, [row for row in rows if key in row]))
    console.print("  ".join(f"{name} {value:g}" for name, value in headline.items()))
    return 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="prover bench scaling", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", default="1,2,4,8", help="numbers of workers (default: 1,2,4,8)")
    parser.add_argument("--window-s", type=float, default=60.0, help="seconds that count (default: 60)")
    parser.add_argument("--warm-up-s", type=float, default=20.0, help="seconds before them (default: 20)")
    parser.add_argument("--median-s", type=float, default=1.0, help="seconds of a turn (default: 1)")
    parser.add_argument("--places", type=int, default=16, help="requests of a worker at a time (default: 16)")
    parser.add_argument("--tasks", type=int, default=16, help="tasks of a worker at a time (default: 16)")
    parser.add_argument("--analyses", type=int, default=16, help="analyses a worker under way (default: 16)")
    parser.add_argument("--mode", default="adaptive", help="mode of the analyses (default: adaptive)")
    parser.add_argument("--burst", type=int, default=1000, help="analyses of the burst (default: 1000; 0: none)")
    parser.add_argument("--coordinators", default="1,2", help="numbers of coordinators (default: 1,2)")
    parser.add_argument("--burst-workers", type=int, default=8, help="workers of the burst (default: 8)")
    parser.add_argument("--quick", action="store_true", help="some minutes: 1 and 8 workers, 100 analyses")
    parser.add_argument("--record", default="scaling", help="name of the record (default: scaling)")
    if parser.parse_args(argv).quick:
        parser.set_defaults(**_QUICK)
    return parser.parse_args(argv)


async def _measure(options: argparse.Namespace, console: Console) -> list[dict[str, float]]:
    load = Load(
        median_s=options.median_s,
        places=options.places,
        tasks=options.tasks,
        analyses=options.analyses,
        mode=options.mode,
    )
    rows: list[dict[str, float]] = []
    for workers in _numbers(options.workers):
        seconds = options.warm_up_s + options.window_s
        with console.status(f"{workers} workers, for {seconds:g} s after their start"):
            rows.append(await with_workers(workers, load, warm_up_s=options.warm_up_s, window_s=options.window_s))
        console.print(f"{workers} workers: {rows[-1]['continuations_per_s']:g} continuations/s")
    for coordinators in _numbers(options.coordinators) if options.burst else ():
        with console.status(f"{options.burst} analyses at once, {coordinators} coordinators, some minutes"):
            rows.append(
                await with_coordinators(coordinators, load, workers=options.burst_workers, analyses=options.burst)
            )
        console.print(f"{coordinators} coordinators: {rows[-1]['ended_per_s']:g} analyses/s")
    return rows


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def headline_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The efficiencies, and what the numbers of coordinators did with the burst."""
    found: dict[str, float] = {}
    scaled = [row for row in rows if "continuations_per_s" in row]
    for name, rate in (("efficiency", "continuations_per_s"), ("turn_efficiency", "turns_per_s")):
        by_workers = efficiencies({int(row["workers"]): float(row[rate]) for row in scaled})
        found |= {f"{name}_{workers}": round(value, 3) for workers, value in by_workers.items() if workers > 1}
    for row in rows:
        if "coordinators" in row:
            names = ("intake_per_s", "ended_per_s", "decision_age_p95_ms")
            found |= {f"{name}_{row['coordinators']}": float(row[name]) for name in names}
    return found


def _table(title: str, rows: Sequence[Mapping[str, float]]) -> Table:
    """A line for each figure, a column for each row: there are more figures than rows."""
    table = Table("", *("" for _ in rows), title=title, show_header=False)
    for name in dict.fromkeys(name for row in rows for name in row):
        table.add_row(name, *(f"{row[name]:g}" if name in row else "" for row in rows))
    return table


if __name__ == "__main__":
    raise SystemExit(main())
