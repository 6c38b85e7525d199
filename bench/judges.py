"""`make bench-judges`: who points at the turns that matter? Judges on groups whose truth is known.

Two kinds of groups: households (bench/judge_household.py), whose values are exact and from which 64 outcomes a boundary
are drawn, and ALFWorld groups whose boundaries were measured with 64 continuations each (bench/data, made by
bench/judge_groups.py). A proposal is accepted where the 90% interval of its delta, from those counts, lies above zero.
`positive` is the paper's weaker mark, a raw difference above zero, which luck alone gives to nearly half of all null
segments. The paper's figures stand beside.

    prover bench judges
    prover bench judges --first-seed 1000 --seeds 100
    prover bench judges --llm-url http://127.0.0.1:8001/v1 --llm-model NAME    # adds the model judge
    prover bench judges --llm-url https://HOST/v1 --llm-model NAME --api-key-env KEY \\
        --input-usd-per-million 0.15 --output-usd-per-million 0.6 --protocol native --context 128000
"""

import argparse
import asyncio
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.judge_groups import DATA, load
from bench.judge_household import Household
from bench.judge_plot import plot
from bench.record import RESULTS, write_record
from prover.credit.eligibility import anchor, eligible
from prover.credit.posterior import independent_delta
from prover.credit.segments import valid_segments
from prover.trajectory import BoundaryCount, Group, Judgement, Segment
from services.judge.interview import Prices
from services.judge.judge import Judge, JudgeOptions, ProposeLimits, make
from services.judge.llm import PROTOCOLS, Endpoint

SAMPLES = 64
HOUSEHOLD = "household"
PAPER: Sequence[Mapping[str, object]] = (
    {"groups_of": "paper, SearchQA", "judge": "random", "positive": 0.195},
    {"groups_of": "paper, SearchQA", "judge": "llm (lowest)", "positive": 0.585, "turns": 1.03},
    {"groups_of": "paper, SearchQA", "judge": "llm (highest)", "positive": 0.724, "turns": 1.45},
)
"""Jung et al., arXiv 2609.36178: eight continuations a boundary, raw difference above zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A group and the counts at the boundaries of its anchor; `values` where they are exact."""

    groups_of: str
    group: Group
    boundaries: tuple[BoundaryCount, ...]
    values: tuple[float, ...] | None = None

    def delta(self, segment: Segment) -> float:
        """V(after) - V(before): exact where it is known, else measured."""
        if self.values is not None:
            return self.values[segment.after.turn] - self.values[segment.before.turn]
        before, after = self.boundaries[segment.before.turn], self.boundaries[segment.after.turn]
        return after.successes / after.samples - before.successes / before.samples


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """How one proposal fared; `delta` is the true gain where it is known, else the measured one."""

    accepted: bool
    positive: bool
    delta: float
    hit: bool
    turns: int


def main(argv: Sequence[str]) -> int:
    """Asks every judge about every group; prints the table, the headline last."""
    options = parse(argv)
    endpoint = endpoint_of(options)
    console = Console()
    console = Console(width=max(console.width, 150))  # the table is wide, also where there is no terminal
    cases = [*_households(options.first_seed, options.seeds), *measured_cases(options.data)]
    judges = _judges(options)
    rows: list[dict[str, object]] = []
    for kind in dict.fromkeys(case.groups_of for case in cases):
        mine = [case for case in cases if case.groups_of == kind]
        with console.status(f"asking the judges about {len(mine)} groups: {kind}"):
            rows += asyncio.run(measure(kind, mine, judges, draws=options.draws, endpoint=endpoint))
    headline = _headline(rows)
    write_record("judges", settings=_settings(options), headline=headline, rows=[*rows, *PAPER])
    plot(rows, PAPER, RESULTS / "judges.png")
    _show(console, rows)
    console.print("  ".join(f"{name} {value:.3f}" for name, value in headline.items()))
    return 0


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The options. Ends the process with a message where they do not fit."""
    parser = argparse.ArgumentParser(prog="prover bench judges", description=__doc__)
    parser.add_argument(
        "--first-seed", type=int, default=10_000, help="seed of the first household (constants were chosen below 320)"
    )
    parser.add_argument("--seeds", type=int, default=60, help="households; those with an eligible group are judged")
    parser.add_argument("--data", type=Path, default=DATA, help="measured groups")
    parser.add_argument("--draws", type=int, default=16, help="how often `random` is asked about each group")
    parser.add_argument("--llm-url", default="", help="an OpenAI-compatible server, /v1 included")
    parser.add_argument("--llm-model", default="", help="the name of its model")
    parser.add_argument("--api-key-env", default="", help="the environment variable that holds the server's key")
    parser.add_argument("--input-usd-per-million", type=float, help="US dollars for a million tokens read")
    parser.add_argument("--output-usd-per-million", type=float, help="US dollars for a million tokens written")
    parser.add_argument("--protocol", choices=PROTOCOLS, default="auto", help="how the model is asked")
    parser.add_argument("--context", type=int, default=32_768, help="tokens that the model can read and write at once")
    options = parser.parse_args(argv)
    if options.api_key_env and not os.environ.get(options.api_key_env):
        parser.error(f"--api-key-env: the environment variable {options.api_key_env} is not set")
    if (options.input_usd_per_million is None) != (options.output_usd_per_million is None):
        parser.error("--input-usd-per-million, --output-usd-per-million: one is missing; expected both, or neither")
    return options


def endpoint_of(options: argparse.Namespace) -> Endpoint | None:
    """The model judge's server; None where no address is given. ValueError names what does not fit."""
    if not options.llm_url:
        return None
    prices = None
    if options.input_usd_per_million is not None:
        prices = Prices(input_usd=options.input_usd_per_million, output_usd=options.output_usd_per_million)
    return Endpoint(
        url=options.llm_url,
        model=options.llm_model,
        api_key=os.environ[options.api_key_env] if options.api_key_env else "",
        protocol=options.protocol,
        context_tokens=options.context,
        prices=prices,
    )


def _settings(options: argparse.Namespace) -> dict[str, object]:
    return {name: value.name if isinstance(value, Path) else value for name, value in vars(options).items()}


def _households(first_seed: int, seeds: int) -> Iterator[Case]:
    for seed in range(first_seed, first_seed + seeds):
        group, worth = Household(seed).group()
        if not eligible(sum(run.success for run in group.trajectories), len(group.trajectories)):
            continue
        values = worth[anchor(group).id]
        rng = np.random.default_rng([seed, 64])
        counts = [BoundaryCount(successes=int(rng.binomial(SAMPLES, value)), samples=SAMPLES) for value in values]
        yield Case(groups_of=HOUSEHOLD, group=group, boundaries=tuple(counts), values=values)


def measured_cases(data: Path = DATA) -> Iterator[Case]:
    """The saved ALFWorld groups."""
    for known in load(data):
        yield Case(groups_of=f"ALFWorld, {known.policy}", group=known.group, boundaries=known.boundaries)


def _judges(options: argparse.Namespace) -> tuple[str, ...]:
    return ("contrast", "random", *(["llm"] if options.llm_url else []), "oracle")


async def measure(
    groups_of: str, cases: Sequence[Case], judges: Sequence[str], *, draws: int, endpoint: Endpoint | None = None
) -> list[dict[str, object]]:
    """One row a judge; `random` is asked `draws` times about each group.

    The oracle is asked where the truth is exact alone: measured counts would flatter it.
    """
    asked = [name for name in judges if name != "oracle" or groups_of == HOUSEHOLD]
    rows: list[dict[str, object]] = []
    for name in asked:
        answers: list[tuple[Case, Judgement]] = []
        for case in cases:
            judge = make(name, JudgeOptions(endpoint=endpoint, values=lambda _, case=case: case.values or ()))
            asks = draws if name == "random" else 1
            answers += [(case, judgement) for judgement in await _ask(judge, case.group, asks)]
        rows.append(_row(groups_of, name, len(cases), answers))
    return rows


async def _ask(judge: Judge, group: Group, draws: int) -> list[Judgement]:
    return [await judge.propose(group, ProposeLimits(seed=seed)) for seed in range(draws)]


def _row(groups_of: str, judge: str, groups: int, answers: Sequence[tuple[Case, Judgement]]) -> dict[str, object]:
    marks: dict[str, list[Mark]] = {}
    for case, judgement in answers:
        for proposal in judgement.proposals:
            marks.setdefault(case.group.task.task_id, []).append(_mark(case, proposal.segment))
    costs = [judgement.cost for _, judgement in answers]
    acceptance, low, high = _mean([[float(mark.accepted) for mark in one] for one in marks.values()])
    return {
        "groups_of": groups_of,
        "judge": judge,
        "groups": groups,
        "judgements": len(answers),
        "no_proposal": sum(not judgement.proposals for _, judgement in answers),
        "acceptance": acceptance,
        "acceptance_low": low,
        "acceptance_high": high,
        "positive": _mean([[float(mark.positive) for mark in one] for one in marks.values()])[0],
        "delta": _mean([[mark.delta for mark in one] for one in marks.values()])[0],
        "hit": _mean([[float(mark.hit) for mark in one] for one in marks.values()])[0],
        "turns": _mean([[float(mark.turns) for mark in one] for one in marks.values()])[0],
        "seconds": round(statistics.fmean(cost.seconds for cost in costs), 4),
        "tokens": round(statistics.fmean(cost.input_tokens + cost.output_tokens for cost in costs), 1),
        "usd": round(statistics.fmean(cost.usd for cost in costs), 6),
        "model_calls": round(statistics.fmean(cost.model_calls for cost in costs), 3),
        "invalid_answers": round(statistics.fmean(cost.invalid_answers for cost in costs), 3),
    }


def _mark(case: Case, segment: Segment) -> Mark:
    before, after = case.boundaries[segment.before.turn], case.boundaries[segment.after.turn]
    posterior = independent_delta(_outcomes(before), _outcomes(after), level=0.9)
    single = [one for one in valid_segments(anchor(case.group)) if len(one) == 1]
    best = max(single, key=case.delta)
    return Mark(
        accepted=posterior.interval[0] > 0,
        positive=after.successes > before.successes,
        delta=case.delta(segment),
        hit=segment.first_turn <= best.first_turn <= segment.last_turn,
        turns=len(segment),
    )


def _outcomes(count: BoundaryCount) -> tuple[int, int]:
    return count.successes, count.samples


def _mean(by_group: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    """The mean over groups (not over draws, which are alike), and its 95% interval by the groups' spread."""
    means = [statistics.fmean(one) for one in by_group]
    if not means:
        return float("nan"), float("nan"), float("nan")
    mean = statistics.fmean(means)
    spread = 1.96 * statistics.stdev(means) / len(means) ** 0.5 if len(means) > 1 else float("nan")
    return round(mean, 4), round(mean - spread, 4), round(mean + spread, 4)


def _headline(rows: Sequence[Mapping[str, object]]) -> dict[str, float]:
    """Over all ALFWorld groups, each counted once; households beside."""
    headline: dict[str, float] = {}
    for judge in ("contrast", "random"):
        measured = [row for row in rows if row["judge"] == judge and row["groups_of"] != HOUSEHOLD]
        household = next(row for row in rows if row["judge"] == judge and row["groups_of"] == HOUSEHOLD)
        for figure in ("acceptance", "positive", "delta", "turns"):
            weights = [_number(row["groups"]) for row in measured]
            figures = [_number(row[figure]) for row in measured]
            headline[f"{judge}_{figure}"] = round(float(np.average(figures, weights=weights)), 4)
        headline[f"household_{judge}_acceptance"] = _number(household["acceptance"])
    headline["acceptance_ratio"] = round(headline["contrast_acceptance"] / headline["random_acceptance"], 3)
    return headline


def _number(value: object) -> float:
    if not isinstance(value, int | float):
        raise TypeError(f"row: {value!r} is no number")
    return float(value)


def _show(console: Console, rows: Sequence[Mapping[str, object]]) -> None:
    columns = ("groups_of", "judge", "groups", "acceptance", "positive", "delta", "hit", "turns", "no_proposal")
    costs = ("seconds", "tokens", "usd", "model_calls", "invalid_answers")
    table = Table(title="Judges (64 continuations a boundary; the paper's rows: 8)")
    for column in (*columns, *costs):
        table.add_column(column)
    for row in [*rows, *PAPER]:
        table.add_row(*(str(row.get(column, "")) for column in (*columns, *costs)))
    console.print(table)
