"""`make bench-frugal`: does a credit rule make training better at equal total tokens? The yardstick for any change.

Two studies in a household of eight places (bench/household/): one kind of task, and five kinds of unequal difficulty.
Every generated token is counted, rollouts and continuations alike; each method is shown at its best learning rate; the
score is the mean success over training. The controls stand beside: bonuses that nobody verified, random judges, judges
that are wrong on purpose.

    prover bench frugal                    # quick: the main methods, 15 minutes on 2 cores
    prover bench frugal --full             # everything, above an hour; goes on where it was stopped
    prover bench frugal --first-seed 100   # other seeds
"""

import argparse
import json
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.household.methods import EQUAL_STEPS, FULL, QUICK, Method
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
    methods, rates = (FULL, (0.005, 0.01, 0.02)) if full else (QUICK, (0.01,))
    chosen = {
        "unequal": Setup(study=UNEQUAL, budget=Budget(tokens=600_000), start=0.17, methods=methods, rates=rates),
    }
    if full:
        household = Setup(
            study=HOUSEHOLD, budget=Budget(tokens=300_000), start=0.2, methods=methods, rates=(0.005, 0.01, 0.02)
        )
        steps = Setup(study=UNEQUAL, budget=Budget(steps=120), start=0.17, methods=EQUAL_STEPS, rates=(0.01,))
        chosen |= {"household": household, "unequal, equal steps": steps}
    return chosen


def main(argv: Sequence[str] | None = None) -> int:
    """Runs what is missing, then reports on everything."""
    options = _options(argv)
    # One thread a process: two runs at once are faster than one run on two threads at this size.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    chosen = setups(full=options.full)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    jobs = list(_jobs(chosen, seeds))
    done = _run_all(jobs, full=options.full, processes=options.processes, kept=Path(options.kept))
    rows = [row for name, setup in chosen.items() for row in _rows(name, setup, seeds, done)]
    headline = _headline(rows)
    console = Console()
    for name in chosen:
        console.print(_table(name, rows))
    settings = {"full": options.full, "seeds": list(seeds), "interval": "95%, Student's t over seeds"}
    path = write_record("frugal", settings=settings, headline=headline, rows=rows)
    _plot(rows, path.with_suffix(".png"))
    console.print(json.dumps(headline, indent=1))
    return 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="prover bench frugal", description="Credit rules at equal total tokens.")
    parser.add_argument("--full", action="store_true", help="all methods, both studies, a grid of learning rates")
    parser.add_argument("--seeds", type=int, default=5, help="training seeds a method (default: 5)")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--kept", default="out/frugal.jsonl", help="finished runs; a stopped benchmark goes on from it")
    return parser.parse_args(argv)


def _jobs(chosen: Mapping[str, Setup], seeds: Sequence[int]) -> Iterator[Job]:
    for seed in seeds:
        for name, setup in chosen.items():
            for method in setup.methods:
                for rate in setup.rates:
                    yield Job(setup=name, method=method, rate=rate, seed=seed)


def _run_all(jobs: Sequence[Job], *, full: bool, processes: int, kept: Path) -> dict[str, dict[str, float]]:
    """Results by job key. Each finished run is appended to `kept` at once."""
    done: dict[str, dict[str, float]] = {}
    if kept.exists():
        for line in kept.read_text().splitlines():
            entry = json.loads(line)
            done[entry["key"]] = entry["result"]
    kept.parent.mkdir(parents=True, exist_ok=True)
    missing = [job for job in jobs if job.key not in done]
    with (
        Progress(console=Console(stderr=True)) as progress,
        ProcessPoolExecutor(processes) as pool,
        kept.open("a") as file,
    ):
        bar = progress.add_task("training runs", total=len(jobs), completed=len(jobs) - len(missing))
        running = {pool.submit(_train, job, full): job for job in missing}
        for future in as_completed(running):
            done[running[future].key] = future.result()
            file.write(json.dumps({"key": running[future].key, "result": future.result()}) + "\n")
            file.flush()
            progress.advance(bar)
    return done


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


def _rows(
    name: str, setup: Setup, seeds: Sequence[int], done: Mapping[str, Mapping[str, float]]
) -> Iterator[dict[str, object]]:
    """One row a method, at its best rate, with the difference to GRPO paired by seed."""
    results = {
        method: max(
            (
                [done[Job(setup=name, method=method, rate=rate, seed=seed).key] for seed in seeds]
                for rate in setup.rates
            ),
            key=lambda runs: statistics.fmean(run["score"] for run in runs),
        )
        for method in setup.methods
    }
    base = [run["score"] for run in results["grpo"]]
    for method, runs in results.items():
        scores = [run["score"] for run in runs]
        difference = interval([score - other for score, other in zip(scores, base, strict=True)])
        yield {
            "study": name,
            "method": method,
            "score": round(statistics.fmean(scores), 4),
            "standard_error": round(statistics.stdev(scores) / len(scores) ** 0.5, 4) if len(scores) > 1 else None,
            "above_grpo": [round(value, 4) for value in difference],
            "final": round(statistics.fmean(run["final"] for run in runs), 4),
            "continuation_share": round(statistics.fmean(run["continuation_share"] for run in runs), 4),
            "eligible_share": round(statistics.fmean(run["eligible_share"] for run in runs), 4),
            "scores": [round(score, 4) for score in scores],
        }


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and its 95% interval by Student's t; the interval is empty-handed (infinite) for a single value."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, float("-inf"), float("inf")
    half = _T_95.get(len(values) - 1, 1.96) * statistics.stdev(values) / len(values) ** 0.5
    return mean, mean - half, mean + half


def _headline(rows: Sequence[Mapping[str, object]]) -> dict[str, float]:
    by_method = {row["method"]: row for row in rows if row["study"] == "unequal"}

    def score(method: str) -> float:
        return float(str(by_method[method]["score"]))

    difference, low, high = json.loads(json.dumps(by_method["audited"]["above_grpo"]))
    return {
        "grpo": score("grpo"),
        "fixed8": score("fixed8"),
        "frugal": score("frugal"),
        "audited": score("audited"),
        "unverified": score("unverified 5"),
        "difference": difference,
        "difference_low": low,
        "difference_high": high,
        "audited_wrong": score("audited wrong"),
        "unverified_wrong": score("unverified 5 wrong"),
    }


def _table(name: str, rows: Sequence[Mapping[str, object]]) -> Table:
    table = Table(title=f"{name}: mean success over training, by method")
    for column in ("method", "score", "standard error", "above GRPO (95% interval)", "continuations", "eligible"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for row in rows:
        if row["study"] != name:
            continue
        difference, low, high = json.loads(json.dumps(row["above_grpo"]))
        table.add_row(
            str(row["method"]),
            f"{row['score']:.3f}",
            f"{row['standard_error']}",
            f"{difference:+.3f} ({low:+.3f} to {high:+.3f})",
            f"{row['continuation_share']:.1%} of tokens",
            f"{row['eligible_share']:.1%} of groups",
        )
    return table


def _plot(rows: Sequence[Mapping[str, object]], path: Path) -> None:
    from matplotlib.figure import Figure

    studies = list(dict.fromkeys(str(row["study"]) for row in rows))
    figure = Figure(figsize=(8, 0.3 * len(rows) + 1.5 * len(studies)), layout="constrained")
    for axes, study in zip(figure.subplots(len(studies), squeeze=False)[:, 0], studies, strict=True):
        shown = [row for row in rows if row["study"] == study][::-1]
        scores = [float(str(row["score"])) for row in shown]
        errors = [float(str(row["standard_error"] or 0.0)) for row in shown]
        axes.errorbar(scores, range(len(shown)), xerr=errors, fmt="o")
        axes.axvline(next(float(str(row["score"])) for row in shown if row["method"] == "grpo"), linestyle=":")
        axes.set_yticks(range(len(shown)), [str(row["method"]) for row in shown])
        axes.set_xlabel(f"{study}: mean success over training (bars: standard error over seeds; dotted: GRPO)")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    raise SystemExit(main())
