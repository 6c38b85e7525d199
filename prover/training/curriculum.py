"""Which tasks come next: those whose success rate promises groups with a signal. Arithmetic on counts.

A group teaches nothing where all its trajectories fare alike. The chance that two of them differ is 2 p (1 - p), so a
task is drawn in proportion to the expectation of p (1 - p) under a Beta posterior of its success rate p. A task that
was never tried borrows the rate of its family: the tasks that one entry of the experiment stands for.
"""

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from prover.training.experiment import Curriculum

_BORROWED = 4.0
"""Trajectories that the family's rate is worth for each of its tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Outcomes so far, older ones faded: hence fractions."""

    successes: float = 0.0
    trajectories: float = 0.0

    def after(self, successes: int, trajectories: int, *, memory: float) -> "Record":
        """With new outcomes."""
        return Record(
            successes=memory * self.successes + successes, trajectories=memory * self.trajectories + trajectories
        )


Records = Mapping[str, Record]
"""By task id, and by family."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a group of a task fared."""

    task_id: str
    successes: int
    trajectories: int


def expected_signal(record: Record, family: Record) -> float:
    """E[p (1 - p)] under Beta(1/2 + ..., 1/2 + ...), the family's rate counting as a few trajectories.

    >>> round(expected_signal(Record(), Record()), 3)  # nothing known: p has the arcsine law
    0.125
    >>> all_won = Record(successes=30, trajectories=30)
    >>> half_won = Record(successes=15, trajectories=30)
    >>> expected_signal(all_won, half_won) < expected_signal(half_won, half_won)
    True
    """
    rate = family.successes / family.trajectories if family.trajectories else 0.5
    borrowed = min(_BORROWED, family.trajectories)
    a = 0.5 + record.successes + borrowed * rate
    b = 0.5 + record.trajectories - record.successes + borrowed * (1.0 - rate)
    return a * b / ((a + b) * (a + b + 1.0))


def choose(
    pool: Sequence[tuple[str, str]], records: Records, *, count: int, seed: str, settings: Curriculum
) -> list[str]:
    """`count` different task ids of `pool` (id, family), in the order to try them; all of them where it is smaller.

    The same arguments choose the same tasks. Weighted without replacement (Efraimidis and Spirakis, 2006): each task
    draws u^(1/w), the greatest win.
    """
    draw = random.Random(seed)
    nothing = Record()
    signals = [
        expected_signal(records.get(task_id, nothing), records.get(family, nothing)) if settings.by_success else 1.0
        for task_id, family in pool
    ]
    mean = sum(signals) / len(signals)
    weights = [(1.0 - settings.explore) * signal + settings.explore * mean for signal in signals]
    keys = [math.log(1.0 - draw.random()) / weight for weight in weights]
    order = sorted(range(len(pool)), key=lambda index: keys[index], reverse=True)
    return [pool[index][0] for index in order[:count]]


def learn(records: Records, outcomes: Iterable[Outcome], families: Mapping[str, str], *, memory: float) -> Records:
    """The records with new outcomes, of each task and of its family."""
    after = dict(records)
    by_family: dict[str, tuple[int, int]] = {}
    for outcome in outcomes:
        task_id, family = outcome.task_id, families[outcome.task_id]
        after[task_id] = after.get(task_id, Record()).after(outcome.successes, outcome.trajectories, memory=memory)
        won, all_ = by_family.get(family, (0, 0))
        by_family[family] = (won + outcome.successes, all_ + outcome.trajectories)
    for family, (won, all_) in by_family.items():
        if family not in families:  # an entry without seeds is its own family
            after[family] = after.get(family, Record()).after(won, all_, memory=memory)
    return after
