"""Rules of verification against the truth, by simulation: what they cost, and how far their credit is from it.

Segments are drawn from several worlds (priors of the value before and after), the group's successes with them, and each
rule is played out with outcomes of those values. Nothing is fitted here: the worlds are the yardstick
(bench/verification_worlds.py), the rule's own prior is in prover/credit/joint.py and agrees with none of them.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bench.record import write_record
from bench.verification_worlds import HELD_OUT, TUNED, Values, World
from prover.credit.adaptive import Adaptive
from prover.credit.rules import Evidence, Fixed, Plan, Rule
from prover.trajectory import BoundaryCount, Verification

Counts = npt.NDArray[np.int64]

GROUP_SIZE = 8
LARGE = 0.3
"""A gain that should not be missed."""
COLUMNS = ("continuations", "rmse", "bias", "false_credit", "missed", "covered")
"""What is reported of a rule. `missed` and `covered` are shares of one; the rest is in continuations or in credit."""


WORLDS: Mapping[str, World] = {**TUNED, **HELD_OUT}
TOGETHER: Mapping[str, Sequence[str]] = {
    "all worlds": tuple(WORLDS),
    "tuned on": tuple(TUNED),
    "held out": tuple(HELD_OUT),
    **{world: (world,) for world in WORLDS},
}
"""What is shown as one line: several worlds with equal weights, or one."""
GROUPS = ("related", "unrelated")
"""Whether the group's success rate is the value before, or has nothing to do with it."""

RULES: Mapping[str, tuple[Rule, int]] = {
    "fixed 4": (Fixed(), 4),
    "fixed 8": (Fixed(), 8),
    "fixed 16": (Fixed(), 16),
    "fixed 32": (Fixed(), 32),
    "adaptive 8": (Adaptive(), 8),
    "adaptive 16": (Adaptive(), 16),
}
"""Rule and most continuations of a boundary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segments:
    """Drawn segments: their true values, and how many of their group's 8 trajectories succeeded."""

    before: Values
    after: Values
    group_successes: Counts


def draw(world: World, group: str, *, rng: np.random.Generator, size: int) -> Segments:
    """Segments of groups that are eligible: 1 to 3 successes of 8."""
    before, after = world(rng, size)
    before, after = np.clip(before, 0.001, 0.999), np.clip(after, 0.001, 0.999)
    if group == "unrelated":
        return Segments(before=before, after=after, group_successes=rng.integers(1, 4, size))
    rates = np.clip(before, 0.02, 0.75)
    successes = rng.binomial(GROUP_SIZE, rates)
    while ((successes < 1) | (successes > 3)).any():
        again = (successes < 1) | (successes > 3)
        successes[again] = rng.binomial(GROUP_SIZE, rates[again])
    return Segments(before=before, after=after, group_successes=successes)


class Played:
    """A rule with what it answered kept: a simulation asks the same thing many times."""

    def __init__(self, rule: Rule, samples: int) -> None:
        self._rule = rule
        self._samples = samples
        self._plans: dict[tuple[int, ...], Plan | None] = {}
        self._verdicts: dict[tuple[int, ...], Verification] = {}

    def play(self, rng: np.random.Generator, before: float, after: float, group_successes: int) -> Verification:
        """One segment, to the rule's verdict."""
        counts = (0, 0, 0, 0, group_successes)
        while (plan := self._plan(counts)) is not None:
            won_before = counts[0] + int(rng.binomial(plan.before - counts[1], before))
            won_after = counts[2] + int(rng.binomial(plan.after - counts[3], after))
            counts = (won_before, plan.before, won_after, plan.after, group_successes)
        if counts not in self._verdicts:
            self._verdicts[counts] = self._rule.settle(_evidence(counts), samples=self._samples, weight=1.0)
        return self._verdicts[counts]

    def _plan(self, counts: tuple[int, ...]) -> Plan | None:
        if counts not in self._plans:
            self._plans[counts] = self._rule.plan(_evidence(counts), samples=self._samples)
        return self._plans[counts]


def _evidence(counts: tuple[int, ...]) -> Evidence:
    won_before, played_before, won_after, played_after, group_successes = counts
    return Evidence(
        before=BoundaryCount(successes=won_before, samples=played_before),
        after=BoundaryCount(successes=won_after, samples=played_after),
        group_successes=group_successes,
        group_size=GROUP_SIZE,
    )


def measure(played: Played, segments: Segments, rng: np.random.Generator) -> dict[str, float]:
    """Means over the segments; the root of the mean square is taken by whoever pools."""
    verdicts = [
        played.play(rng, float(before), float(after), int(successes))
        for before, after, successes in zip(segments.before, segments.after, segments.group_successes, strict=True)
    ]
    bonus = np.array([verdict.bonus for verdict in verdicts])
    delta = segments.after - segments.before
    truth = np.maximum(delta, 0.0)
    null, large = delta <= 0.0, delta >= LARGE
    inside = [low <= value <= high for value, (low, high) in zip(delta, (v.interval for v in verdicts), strict=True)]
    return {
        "continuations": float(np.mean([verdict.before.samples + verdict.after.samples for verdict in verdicts])),
        "square_error": float(np.mean((bonus - truth) ** 2)),
        "bias": float(np.mean(bonus - truth)),
        "false_credit": float(bonus[null].mean()) if null.any() else 0.0,
        "missed": float((bonus[large] == 0.0).mean()) if large.any() else 0.0,
        "covered": float(np.mean(inside)),
    }


def simulate(*, segments: int, seeds: Sequence[int]) -> list[dict[str, object]]:
    """One row for each rule, world, kind of group and seed."""
    rows: list[dict[str, object]] = []
    for name, (rule, samples) in RULES.items():
        played = Played(rule, samples)
        for world in WORLDS:
            for group in GROUPS:
                for seed in seeds:
                    rng = np.random.default_rng([seed, sorted(WORLDS).index(world), GROUPS.index(group)])
                    drawn = draw(WORLDS[world], group, rng=rng, size=segments)
                    found = measure(played, drawn, rng)
                    rows.append({"rule": name, "world": world, "group": group, "seed": seed, **found})
    return rows


def by_seed(rows: Sequence[Mapping[str, object]], rule: str, column: str, worlds: Sequence[str]) -> Values:
    """The mean of a column over these worlds and both kinds of group, for each seed; "rmse" is the root of the mean
    square error of the credit against the true positive part."""
    source = "square_error" if column == "rmse" else column
    found: dict[int, list[float]] = {}
    for row in rows:
        if row["rule"] == rule and row["world"] in worlds:
            found.setdefault(int(str(row["seed"])), []).append(float(str(row[source])))
    means = np.array([np.mean(found[seed]) for seed in sorted(found)], dtype=np.float64)
    return means**0.5 if column == "rmse" else means


def interval(of_seeds: Values) -> tuple[float, float]:
    """Mean over the seeds, and two standard errors of it (about 95%; 0 for one seed)."""
    error = 2.0 * float(np.std(of_seeds, ddof=1)) / of_seeds.size**0.5 if of_seeds.size > 1 else 0.0
    return float(np.mean(of_seeds)), error


def summary(rows: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """One row for each line of `TOGETHER` and rule: every column, and half the width of its interval."""
    lines: list[dict[str, object]] = []
    for name, worlds in TOGETHER.items():
        for rule in RULES:
            line: dict[str, object] = {"worlds": name, "rule": rule}
            for column in COLUMNS:
                mean, error = interval(by_seed(rows, rule, column, worlds))
                line |= {column: round(mean, 5), f"{column}_error": round(error, 5)}
            lines.append(line)
    return lines


def compared(rows: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """adaptive against fixed at K = 8 for each line of `TOGETHER`: the ratio of the continuations, and the differences
    of RMSE and false credit, of the same segments."""
    lines: list[dict[str, object]] = []
    for name, worlds in TOGETHER.items():
        ours, theirs = (
            {column: by_seed(rows, rule, column, worlds) for column in COLUMNS} for rule in ("adaptive 8", "fixed 8")
        )
        line: dict[str, object] = {"worlds": name}
        for column, values in (
            ("cost_ratio", ours["continuations"] / theirs["continuations"]),
            ("rmse_difference", ours["rmse"] - theirs["rmse"]),
            ("false_credit_difference", ours["false_credit"] - theirs["false_credit"]),
        ):
            mean, error = interval(values)
            line |= {column: round(mean, 5), f"{column}_error": round(error, 5)}
        lines.append(line)
    return lines


def table(lines: Sequence[Mapping[str, object]]) -> str:
    """For people: a line for each summary, every figure with half the width of its interval."""
    columns = [key for key in lines[0] if f"{key}_error" in lines[0]]
    names = [key for key in lines[0] if key not in columns and not key.endswith("_error")]
    shown = ["".join(f"{name:22}" for name in names) + "".join(f"{column:>24}" for column in columns)]
    for line in lines:
        figures = (
            f"{float(str(line[column])):13.3f} +-{float(str(line[f'{column}_error'])):8.3f}" for column in columns
        )
        shown.append("".join(f"{line[name]!s:22}" for name in names) + "".join(figures))
    return "\n".join(shown)


def headline(rows: Sequence[Mapping[str, object]]) -> dict[str, float]:
    """The adaptive rule at the budget of the paper's K = 8: over all worlds, and over those that were held out."""
    found: dict[str, float] = {}
    for name, worlds in (("", TOGETHER["all worlds"]), ("held_out_", TOGETHER["held out"])):
        ours, theirs = (
            {column: interval(by_seed(rows, rule, column, worlds))[0] for column in COLUMNS}
            for rule in ("adaptive 8", "fixed 8")
        )
        found |= {
            f"{name}adaptive_cost_ratio": round(ours["continuations"] / theirs["continuations"], 4),
            f"{name}adaptive_rmse": round(ours["rmse"], 4),
            f"{name}fixed8_rmse": round(theirs["rmse"], 4),
            f"{name}adaptive_false_credit": round(ours["false_credit"], 4),
            f"{name}fixed8_false_credit": round(theirs["false_credit"], 4),
        }
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Simulates, records, shows; the headline last."""
    parser = argparse.ArgumentParser(prog="prover bench verification", description=__doc__)
    parser.add_argument("--segments", type=int, default=200, help="segments of each world, kind of group and seed")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    asked = parser.parse_args(argv)
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    rows = simulate(segments=asked.segments, seeds=seeds)
    settings = {"segments": asked.segments, "seeds": list(seeds), "group_size": GROUP_SIZE, "large": LARGE}
    found = headline(rows)
    lines, against = summary(rows), compared(rows)
    path = write_record("verification", settings=settings, headline=found, rows=[*lines, *against])
    sys.stdout.write(f"{table(lines)}\n\nadaptive 8 against fixed 8\n{table(against)}\n\n{path}\n")
    sys.stdout.writelines(f"{name} {value}\n" for name, value in found.items())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
