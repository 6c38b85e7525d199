"""`make bench-frugal`: does a credit rule make training better at equal total tokens? The yardstick for any change.

Two studies in a household of eight places (bench/household/): one kind of task, and five kinds of unequal difficulty.
Every generated token is counted, rollouts and continuations alike; each method is shown at its best learning rate; the
score is the mean success over training. The controls stand beside: bonuses that nobody verified, the same mass over the
whole trajectory, judges that are right 60 or 30% of the time, random, or wrong on purpose; and so do the figures of our
first studies (bench/household/studies.py), and whether this run says the same.

    prover bench frugal                    # quick: the main methods and controls at one rate, some minutes on 2 cores
    prover bench frugal --full             # everything, about half an hour; goes on where it was stopped
    prover bench frugal --full --report    # writes the record of what has finished, and runs nothing
    prover bench frugal --first-seed 100 --record frugal_other_seeds --kept out/other.jsonl   # other seeds, beside it
"""

import argparse
import json
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from bench.frugal_report import headline_of, plot, table_of
from bench.household.methods import EQUAL_STEPS, FULL, QUICK, Method
from bench.household.studies import is_reproduced, studied_difference
from bench.household.training import Budget, Run
from bench.household.world import HOUSEHOLD, UNEQUAL, Study
from bench.record import write_record

_T_95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}
"""Two-sided 95% points of Student's t by degrees of freedom (any table of it); 1.96 beyond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """One column of results: a study, its budget, the success rate that every method starts from."""

    study: Study
    budget: Budget
    start: float
    methods: Mapping[str, Method]
    rates: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run. The key names it in the file that a stopped benchmark goes on from."""

    setup: str
    method: str
    rate: float
    seed: int

    @property
    def key(self) -> str:
        """Unique among jobs."""
        return f"{self.setup}/{self.method}/{self.rate}/{self.seed}"


def setups(*, full: bool) -> Mapping[str, Setup]:
    """The studies of a quick or a full run."""
    methods, rates = (FULL, (0.01, 0.02)) if full else (QUICK, (0.01,))
    chosen = {
        "unequal": Setup(study=UNEQUAL, budget=Budget(tokens=600_000), start=0.17, methods=methods, rates=rates),
    }
    if full:
        steps = Setup(study=UNEQUAL, budget=Budget(steps=120), start=0.17, methods=EQUAL_STEPS, rates=(0.01,))
        household = Setup(study=HOUSEHOLD, budget=Budget(tokens=150_000), start=0.2, methods=methods, rates=rates)
        chosen |= {"unequal, equal steps": steps, "household": household}
    return chosen


def main(argv: Sequence[str] | None = None) -> int:
    """Runs what is missing, then reports on everything."""
    options = _options(argv)
    # One thread a process: at this size runs at once are several times faster so. numpy reads it when it is loaded, so
    # the processes are spawned: a fork would have the threads of this one.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    chosen = setups(full=options.full)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    jobs = list(_jobs(chosen, seeds))
    kept = Path(options.kept)
    if not options.report:
        _run_all(jobs, full=options.full, processes=options.processes, kept=kept)
    done = _read(kept)
    rows = [row for name, setup in chosen.items() for row in rows_of(name, setup, seeds, done)]
    lacking = set(QUICK) - {row["method"] for row in rows if row["study"] == "unequal"}
    if lacking:
        raise SystemExit(f"frugal: no seed of {', '.join(sorted(lacking))} has finished yet; run it without --report")
    headline = headline_of(rows)
    console = Console()
    for name in dict.fromkeys(str(row["study"]) for row in rows):
        console.print(table_of(name, rows))
    settings = {
        "full": options.full,
        "seeds": list(seeds),
        "rates": {name: setup.rates for name, setup in chosen.items()},
        "interval": "95%, Student's t over seeds",
        "runs": f"{sum(job.key in done for job in jobs)} of {len(jobs)}",
    }
    path = write_record(options.record, settings=settings, headline=headline, rows=rows)
    plot(rows, path.with_suffix(".png"))
    console.print(json.dumps(headline, indent=1))
    return 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="prover bench frugal", description="Credit rules at equal total tokens.")
    parser.add_argument("--full", action="store_true", help="all methods, both studies, a grid of learning rates")
    parser.add_argument("--seeds", type=int, default=5, help="training seeds a method (default: 5)")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--kept", default="out/frugal.jsonl", help="finished runs; a stopped benchmark goes on from it")
    parser.add_argument("--record", default="frugal", help="name of the record in bench/results/ (default: frugal)")
    parser.add_argument("--report", action="store_true", help="run nothing: report on the runs that have finished")
    options = parser.parse_args(argv)
    if options.seeds < 2:
        parser.error(f"--seeds: was {options.seeds}; expected at least 2: an interval needs them")
    return options


def _jobs(chosen: Mapping[str, Setup], seeds: Sequence[int]) -> Iterator[Job]:
    """The methods that claims rest on first, for all seeds; then the others, seed by seed."""
    jobs = [
        Job(setup=name, method=method, rate=rate, seed=seed)
        for seed in seeds
        for name, setup in chosen.items()
        for method in setup.methods
        for rate in setup.rates
    ]
    yield from (job for job in jobs if job.setup == "unequal" and job.method in QUICK)
    yield from (job for job in jobs if job.setup != "unequal" or job.method not in QUICK)


def _read(kept: Path) -> dict[str, dict[str, float]]:
    """Results of the runs that have finished, by job key."""
    if not kept.exists():
        return {}
    return {entry["key"]: entry["result"] for entry in map(json.loads, kept.read_text().splitlines())}


def _run_all(jobs: Sequence[Job], *, full: bool, processes: int, kept: Path) -> None:
    """Each finished run is appended to `kept` at once."""
    done = _read(kept)
    kept.parent.mkdir(parents=True, exist_ok=True)
    missing = [job for job in jobs if job.key not in done]
    with (
        Progress(console=Console(stderr=True)) as progress,
        ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool,
        kept.open("a") as file,
    ):
        bar = progress.add_task("training runs", total=len(jobs), completed=len(jobs) - len(missing))
        running = {pool.submit(_train, job, full): job for job in missing}
        for future in as_completed(running):
            file.write(json.dumps({"key": running[future].key, "result": future.result()}) + "\n")
            file.flush()
            progress.advance(bar)


def _train(job: Job, full: bool) -> dict[str, float]:
    setup = setups(full=full)[job.setup]
    run = Run(setup.study, setup.methods[job.method], rate=job.rate, seed=job.seed, start=setup.start)
    run.train(setup.budget)
    tally = run.tally
    last = tally.curve[-max(1, len(tally.curve) // 10) :]
    return {
        "score": tally.score(setup.budget),
        "final": statistics.fmean(value for _, value in last),
        "steps": tally.steps,
        "continuation_share": tally.continuation_tokens / tally.tokens,
        "eligible_share": tally.eligible / tally.groups,
    }


def rows_of(
    name: str, setup: Setup, seeds: Sequence[int], done: Mapping[str, Mapping[str, float]]
) -> Iterator[dict[str, object]]:
    """One row a method, at its best rate, with the difference to GRPO paired by seed, and what our studies had there.

    A method counts with the seeds that have finished at every rate, so that no rate is chosen on fewer.
    """
    base = _at_best_rate(name, setup, "grpo", seeds, done)
    for method in setup.methods:
        rate, runs = _at_best_rate(name, setup, method, seeds, done)
        if not runs:
            continue
        scores = [run["score"] for run in runs.values()]
        paired = [run["score"] - base[1][seed]["score"] for seed, run in runs.items() if seed in base[1]]
        above = interval(paired) if len(paired) > 1 else None
        studied = studied_difference(name, method)
        ours = interval(scores) if method == "grpo" else above
        yield {
            "study": name,
            "method": method,
            "rate": rate,
            "seeds": list(runs),
            "score": round(statistics.fmean(scores), 4),
            "standard_error": round(statistics.stdev(scores) / len(scores) ** 0.5, 4) if len(scores) > 1 else None,
            "above_grpo": [round(value, 4) for value in above] if above else None,
            "studied": list(studied) if studied else None,
            "reproduced": is_reproduced(ours, studied) if ours and studied else None,
            "final": round(statistics.fmean(run["final"] for run in runs.values()), 4),
            "continuation_share": round(statistics.fmean(run["continuation_share"] for run in runs.values()), 4),
            "eligible_share": round(statistics.fmean(run["eligible_share"] for run in runs.values()), 4),
            "scores": [round(score, 4) for score in scores],
        }


def _at_best_rate(
    name: str, setup: Setup, method: str, seeds: Sequence[int], done: Mapping[str, Mapping[str, float]]
) -> tuple[float, dict[int, Mapping[str, float]]]:
    """The rate with the highest mean score, and its runs by seed."""

    def key(rate: float, seed: int) -> str:
        return Job(setup=name, method=method, rate=rate, seed=seed).key

    whole = [seed for seed in seeds if all(key(rate, seed) in done for rate in setup.rates)]
    by_rate = {rate: {seed: done[key(rate, seed)] for seed in whole} for rate in setup.rates}
    best = max(by_rate, key=lambda rate: sum(run["score"] for run in by_rate[rate].values()))
    return best, by_rate[best]


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and its 95% interval by Student's t; the interval is empty-handed (infinite) for a single value."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, float("-inf"), float("inf")
    half = _T_95.get(len(values) - 1, 1.96) * statistics.stdev(values) / len(values) ** 0.5
    return mean, mean - half, mean + half


if __name__ == "__main__":
    raise SystemExit(main())
