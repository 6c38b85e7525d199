"""Rules of verification against the truth, by simulation: what they cost, and how far their credit is from it.

Segments are drawn from several worlds (priors of the value before and after), the group's successes with them, and each
rule is played out with outcomes of those values. Nothing is fitted here: the worlds are the yardstick, the rule's own
prior is in prover/credit/joint.py and agrees with none of them.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bench.record import write_record
from prover.credit.adaptive import Adaptive
from prover.credit.rules import Evidence, Fixed, Plan, Rule
from prover.trajectory import BoundaryCount, Verification

Values = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
World = Callable[[np.random.Generator, int], tuple[Values, Values]]
"""Draws so many (value before, value after)."""

GROUP_SIZE = 8
LARGE = 0.3
"""A gain that should not be missed."""


def _pivotal(rng: np.random.Generator, before: Values, share: float) -> tuple[Values, Values]:
    """`share` of the segments gain a uniform part of what there is to gain; the others change nothing."""
    gains = (rng.random(before.size) < share) * rng.random(before.size)
    return before, before + gains * (1 - before)


def _harmful(rng: np.random.Generator, size: int) -> tuple[Values, Values]:
    before = rng.beta(2, 5, size)
    factor = np.where(rng.random(size) < 0.5, 1.0, rng.random(size))
    better = before + rng.random(size) * (1 - before)
    return before, np.where(rng.random(size) < 0.25, better, before * factor)


WORLDS: Mapping[str, World] = {
    "mostly null": lambda rng, size: _pivotal(rng, rng.uniform(0.1, 0.9, size), 0.3),
    "mostly pivotal": lambda rng, size: _pivotal(rng, rng.uniform(0.05, 0.8, size), 0.7),
    "low success": lambda rng, size: _pivotal(rng, rng.beta(1, 6, size), 0.5),
    "nothing but null": lambda rng, size: _pivotal(rng, rng.uniform(0.05, 0.95, size), 0.0),
    "often harmful": _harmful,
    "unrelated values": lambda rng, size: (rng.random(size), rng.random(size)),
}
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


def pooled(rows: Sequence[Mapping[str, object]], rule: str, column: str, **where: object) -> tuple[float, float]:
    """Mean of a column over worlds and groups, and half the width of its 95% interval over seeds (0 for one seed)."""
    chosen = [row for row in rows if row["rule"] == rule and all(row[key] == value for key, value in where.items())]
    seeds = sorted({int(str(row["seed"])) for row in chosen})
    means = [np.mean([float(str(row[column])) for row in chosen if row["seed"] == seed]) for seed in seeds]
    error = float(np.std(means, ddof=1) / len(means) ** 0.5) if len(means) > 1 else 0.0
    return float(np.mean(means)), 1.96 * error


def rmse(rows: Sequence[Mapping[str, object]], rule: str, **where: object) -> float:
    """Root mean square error of the credit against the true positive part."""
    return pooled(rows, rule, "square_error", **where)[0] ** 0.5


def table(rows: Sequence[Mapping[str, object]]) -> str:
    """For people: one line for each rule, over all worlds and then in each."""
    lines = [f"{'':34}{'continuations':>16}{'RMSE':>8}{'bias':>9}{'false':>8}{'missed':>8}{'covered':>9}"]
    for world in ("all worlds", *WORLDS):
        for rule in RULES:
            where = {} if world == "all worlds" else {"world": world}
            cost, spread = pooled(rows, rule, "continuations", **where)
            bias, false, missed, covered = (
                pooled(rows, rule, column, **where)[0] for column in ("bias", "false_credit", "missed", "covered")
            )
            lines.append(
                f"{world:20}{rule:14}{cost:9.2f} +-{spread:4.2f}{rmse(rows, rule, **where):8.3f}{bias:9.3f}"
                f"{false:8.3f}{missed:8.2f}{covered:9.2f}"
            )
    return "\n".join(lines)


def headline(rows: Sequence[Mapping[str, object]]) -> dict[str, float]:
    """The adaptive rule at the budget of the paper's K = 8, over all worlds."""
    cost, fixed_cost = (pooled(rows, rule, "continuations")[0] for rule in ("adaptive 8", "fixed 8"))
    return {
        "adaptive_cost_ratio": round(cost / fixed_cost, 4),
        "adaptive_rmse": round(rmse(rows, "adaptive 8"), 4),
        "fixed8_rmse": round(rmse(rows, "fixed 8"), 4),
        "adaptive_false_credit": round(pooled(rows, "adaptive 8", "false_credit")[0], 4),
        "fixed8_false_credit": round(pooled(rows, "fixed 8", "false_credit")[0], 4),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Simulates, records, shows; the headline last."""
    parser = argparse.ArgumentParser(prog="prover bench verification", description=__doc__)
    parser.add_argument("--segments", type=int, default=1000, help="segments of each world, kind of group and seed")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--first-seed", type=int, default=0)
    asked = parser.parse_args(argv)
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    rows = simulate(segments=asked.segments, seeds=seeds)
    settings = {"segments": asked.segments, "seeds": list(seeds), "group_size": GROUP_SIZE, "large": LARGE}
    found = headline(rows)
    path = write_record("verification", settings=settings, headline=found, rows=rows)
    sys.stdout.write(f"{table(rows)}\n\n{path}\n")
    sys.stdout.writelines(f"{name} {value}\n" for name, value in found.items())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
