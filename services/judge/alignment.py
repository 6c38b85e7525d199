"""Sets the anchor beside the other trajectories of its group: which of its steps did they also take, which mattered?

A step is an accepted action together with what came back. Arrays: T turns of the anchor, N other trajectories.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from prover.trajectory import Group, Trajectory

Floats = NDArray[np.float64]

_WORD = re.compile(r"[^\W\d_]+|\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One turn as alignment sees it. `action` is None where the turn did nothing (a thought, a rejected action)."""

    action: str | None
    response: str
    digest_after: str | None


def steps(trajectory: Trajectory) -> tuple[Step, ...]:
    """The turns of a trajectory, each with what came back: the observation and the state of the turn after it."""
    turns = trajectory.turns
    found: list[Step] = []
    for index, turn in enumerate(turns):
        following = turns[index + 1] if index + 1 < len(turns) else None
        found.append(
            Step(
                action=turn.action if turn.valid else None,
                response=following.observation if following else "",
                digest_after=following.digest if following else None,
            )
        )
    return tuple(found)


def terms(text: str) -> tuple[str, ...]:
    """The words of a text in lower case. A number is joined to the word before it, so that 'shelf 3' names one thing.

    >>> terms("You open Drawer 12.")
    ('you', 'open', 'drawer', 'drawer_12')
    """
    words = _WORD.findall(text.lower())
    found: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        found.append(f"{before}_{word}" if word.isdigit() and before and not before.isdigit() else word)
    return tuple(found)


def rarity(group: Group) -> Mapping[str, float]:
    """How telling each term is: inverse document frequency over the steps of the group, 1 for a term of one step.

    With n steps, of which c hold the term: log((n + 1) / (c + 1/2)) / log((n + 1) / (3/2)).
    """
    counts: Counter[str] = Counter()
    total = 0
    for trajectory in group.trajectories:
        for step in steps(trajectory):
            if step.action is not None:
                total += 1
                counts.update({*terms(step.action), *terms(step.response)})
    scale = log((total + 1) / 1.5) if total else 1.0
    return {term: max(0.0, log((total + 1) / (count + 0.5)) / scale) for term, count in counts.items()}


def taken(anchor: Sequence[Step], others: Sequence[Sequence[Step]]) -> Floats:
    """(N, T): 1 where the other trajectory, at any time, took the anchor's step or stood in the state it led to.

    A step is the same when action and response are the same text; a state when the digests are. Turns of the anchor
    that did nothing count as taken by everybody.
    """
    table_NT = np.zeros((len(others), len(anchor)))
    for row, other in enumerate(others):
        pairs = {(step.action, step.response) for step in other if step.action is not None}
        digests = {step.digest_after for step in other if step.digest_after is not None}
        for column, step in enumerate(anchor):
            same = step.action is None or (step.action, step.response) in pairs or step.digest_after in digests
            table_NT[row, column] = float(same)
    return table_NT


def relevance(
    anchor: Sequence[Step], rarities: Mapping[str, float], *, on_the_way: Sequence[bool], carry: float, keep: float
) -> Floats:
    """(T,): how much the anchor's ending leans on each step, from 0 to 1, by a slice backwards from its last action.

    The terms of the last action are needed, each as much as it is rare. Going backwards, a step is as relevant as the
    most needed term in its action or response. A term that was met is needed `keep` times as much further back, and
    the terms of a relevant action become needed in their turn, `carry` times its relevance times their rarity. At the
    end all are divided by the largest before the last, and the last has 1. Steps that are not on the way (detours that
    led back) are passed over with 0.
    """
    found_T = np.zeros(len(anchor))
    needed = {term: rarities.get(term, 0.0) for term in _words(anchor[-1].action)}
    for turn in range(len(anchor) - 2, -1, -1):
        step = anchor[turn]
        if step.action is None or not on_the_way[turn]:
            continue
        acted, met = _words(step.action), _words(step.action) | _words(step.response)
        found_T[turn] = max((needed.get(term, 0.0) for term in met), default=0.0)
        needed |= {term: keep * needed[term] for term in met if term in needed}
        raised = {term: carry * found_T[turn] * rarities.get(term, 0.0) for term in acted}
        needed |= {term: max(needed.get(term, 0.0), value) for term, value in raised.items()}
    largest = found_T.max(initial=0.0)
    scaled_T = found_T / largest if largest > 0 else np.array(on_the_way, dtype=np.float64)
    scaled_T[-1] = 1.0
    return scaled_T


def _words(text: str | None) -> set[str]:
    return set(terms(text)) if text is not None else set()
