"""The judge's record kept apart by what a proposal is like, as far as audits tell the difference.

A judge may be good at one kind of task, or late in a trajectory, and no better than chance elsewhere. Audits are sorted
by three features that are known before anything is played: the kind of the task, the group's success rate, and where in
its trajectory the segment lies. What a value of a feature is better or worse than the whole is shrunk towards nothing,
and is nothing where there are few audits of it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from prover.trajectory import Group, Segment

FEATURES_WINDOW = 256
"""Audits that count here: more than those of the record itself. How good a judge is changes with the policy; where it
is better than elsewhere changes more slowly."""

ENOUGH = 32
"""Audits of a value before it is told apart."""

FEATURES = ("kind", "rate", "position")

_WORD = re.compile(r"[A-Za-z_]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """What a proposal is like.

    Attributes:
        kind: of the task, as its id says; empty where it says nothing.
        rate: the group's success rate: "up to 1/8", "up to 1/4" or "above 1/4".
        position: the third of its trajectory in which the segment begins: "first", "middle" or "last".
    """

    kind: str
    rate: str
    position: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What audits say of one value of a feature. `shift`: by how much it moves the record; 0 with too few audits."""

    audits: int
    mean_delta: float
    shift: float


def features_of(group: Group, segment: Segment) -> Features:
    """The features of a proposal; nothing of an outcome of its verification is in them."""
    return sorted_as(
        task_kind(group.task.task_id),
        success_rate=sum(trajectory.success for trajectory in group.trajectories) / len(group.trajectories),
        first_turn=segment.first_turn,
        turns=len(group.trajectory(segment.trajectory_id).turns),
    )


def sorted_as(kind: str, *, success_rate: float, first_turn: int, turns: int) -> Features:
    """Features by the group's success rate, the turn in which the segment begins (from 0) and its trajectory's turns.

    >>> sorted_as("heat", success_rate=0.25, first_turn=9, turns=10)
    Features(kind='heat', rate='up to 1/4', position='last')
    """
    return Features(
        kind=kind,
        rate="up to 1/8" if success_rate <= 1 / 8 else "up to 1/4" if success_rate <= 1 / 4 else "above 1/4",
        position=("first", "middle", "last")[3 * first_turn // turns],
    )


def task_kind(task_id: str) -> str:
    """The kind that an id names: its second part between slashes, or else its first, up to a hyphen, where that is a
    word.

    >>> task_kind("valid_seen/pick_and_place_simple-Mug-None-Desk-308/trial_T2019"), task_kind("generated/look_at/7")
    ('pick_and_place_simple', 'look_at')
    >>> task_kind("webshop-12"), task_kind("6/2,4")
    ('webshop', '')
    """
    parts = [part.split("-", 1)[0] for part in task_id.split("/")]
    return next((part for part in (*parts[1:2], parts[0]) if _WORD.fullmatch(part)), "")


def told_apart(audits: Sequence[tuple[Features, float]]) -> Mapping[str, Mapping[str, Told]]:
    """By feature and value. `audits` are (features, delta), in any order.

    One feature after another explains what those before it have left of e_i = delta_i - mean(delta). Of its values only
    those with 32 audits or more are told apart; with n_c audits of value c, e_c the mean of theirs, s^2 the variance
    within values and t^2 that between values (the moment estimate of analysis of variance, as DerSimonian and Laird,
    Controlled Clinical Trials 7, 1986; 0 where the values differ no more than chance would have it),

        shift_c = e_c t^2 / (t^2 + s^2 / n_c)
    """
    if not audits:
        return {}
    deltas = [delta for _, delta in audits]
    left = [delta - fsum(deltas) / len(deltas) for delta in deltas]
    found: dict[str, Mapping[str, Told]] = {}
    for feature in FEATURES:
        values = [str(getattr(features, feature)) for features, _ in audits]
        shifts = _shifts(values, left)
        found[feature] = {
            value: Told(audits=len(own), mean_delta=fsum(own) / len(own), shift=shifts.get(value, 0.0))
            for value, own in sorted(_by_value(values, deltas).items())
        }
        left = [rest - shifts.get(value, 0.0) for value, rest in zip(values, left, strict=True)]
    return found


def shift_of(features: Features, told: Mapping[str, Mapping[str, Told]]) -> float:
    """What the record of proposals like this one is above the whole's.

    >>> shift_of(Features(kind="", rate="up to 1/8", position="first"), {})
    0.0
    """
    values = ((feature, str(getattr(features, feature))) for feature in FEATURES)
    return fsum(told[feature][value].shift for feature, value in values if value in told.get(feature, {}))


def _shifts(values: Sequence[str], left: Sequence[float]) -> dict[str, float]:
    """The shrunk mean of each value that has enough; none where there are fewer than two of them."""
    cells = {value: own for value, own in _by_value(values, left).items() if len(own) >= ENOUGH}
    total = sum(map(len, cells.values()))
    if len(cells) < 2:
        return {}
    whole = fsum(fsum(own) for own in cells.values()) / total
    means = {value: fsum(own) / len(own) for value, own in cells.items()}
    inside = fsum((one - means[value]) ** 2 for value, own in cells.items() for one in own) / (total - len(cells))
    between = fsum(len(own) * (means[value] - whole) ** 2 for value, own in cells.items())
    spread = total - sum(len(own) ** 2 for own in cells.values()) / total
    true_variance = max(0.0, (between - (len(cells) - 1) * inside) / spread)
    if true_variance == 0.0:
        return dict.fromkeys(cells, 0.0)
    return {value: means[value] * true_variance / (true_variance + inside / len(cells[value])) for value in cells}


def _by_value(values: Sequence[str], numbers: Sequence[float]) -> Mapping[str, list[float]]:
    found: dict[str, list[float]] = {}
    for value, number in zip(values, numbers, strict=True):
        found.setdefault(value, []).append(number)
    return found
