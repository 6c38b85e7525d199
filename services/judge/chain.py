"""The group as a Markov chain: its recorded states, the moves between them, and what each is worth.

States are named by their digests. Every move that some trajectory of the group made is an edge; a trajectory's last
move leads to the end, WON or LOST. Numbers: S states, E edges.
"""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from prover.trajectory import Group, Trajectory

WON = "won"
LOST = "lost"
_SWEEPS = 2_000
_CLOSE = 1e-9

State = tuple[str, str]
"""("state", digest), or ("end", WON or LOST)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Attributes:
    values: the chance to win from each state, if moves are drawn as the group made them.
    distances: fewest recorded moves from each state to a win; states from which nobody won are absent.
    """

    values: Mapping[State, float]
    distances: Mapping[State, int]

    def along(self, trajectory: Trajectory) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Value and distance before each turn of a successful trajectory of the group, and at its end."""
        return self.values_along(trajectory), tuple(self.distances[state] for state in states_along(trajectory))

    def values_along(self, trajectory: Trajectory) -> tuple[float, ...]:
        """The value before each turn of any trajectory of the group, and at its end."""
        return tuple(self.values[state] for state in states_along(trajectory))


def chain(group: Group, *, prior: float) -> Chain | None:
    """The chain of a group; None where a turn has no digest.

    A state that was left n times is worth (sum over its n moves of the value they led to + prior * p) / (n + prior),
    where p is the group's success rate; WON is worth 1 and LOST 0. Solved by repeated substitution.
    """
    if any(turn.digest is None for trajectory in group.trajectories for turn in trajectory.turns):
        return None
    moves: Counter[tuple[State, State]] = Counter()
    for trajectory in group.trajectories:
        moves.update(pairwise(states_along(trajectory)))
    return Chain(values=_values(moves, group, prior), distances=_distances(moves))


def states_along(trajectory: Trajectory) -> list[State]:
    """The state before each turn, and the end."""
    end = WON if trajectory.success else LOST
    return [*(("state", turn.digest or "") for turn in trajectory.turns), ("end", end)]


def _values(moves: Mapping[tuple[State, State], int], group: Group, prior: float) -> dict[State, float]:
    edges = sorted(moves)  # in an order that does not depend on the group's
    names = sorted({state for edge in edges for state in edge})
    row = {state: index for index, state in enumerate(names)}
    from_E = np.array([row[start] for start, _ in edges])
    to_E = np.array([row[end] for _, end in edges])
    count_E = np.array([moves[edge] for edge in edges], dtype=np.float64)
    rate = sum(trajectory.success for trajectory in group.trajectories) / len(group.trajectories)
    fixed_S = np.array([1.0 if state == ("end", WON) else 0.0 for state in names])
    ends_S = np.array([state[0] == "end" for state in names])
    left_S = np.bincount(from_E, weights=count_E, minlength=len(names)) + ends_S  # ends are never divided by 0
    value_S = np.where(ends_S, fixed_S, rate)
    for _ in range(_SWEEPS):
        reached_S = np.bincount(from_E, weights=count_E * value_S[to_E], minlength=len(names))
        following_S = np.where(ends_S, fixed_S, (reached_S + prior * rate) / (left_S + prior))
        change = float(np.abs(following_S - value_S).max())
        value_S = following_S
        if change < _CLOSE:
            break
    return dict(zip(names, value_S.tolist(), strict=True))


def _distances(moves: Mapping[tuple[State, State], int]) -> dict[State, int]:
    """Breadth first, backwards from WON."""
    before: dict[State, list[State]] = {}
    for start, end in moves:
        before.setdefault(end, []).append(start)
    found: dict[State, int] = {("end", WON): 0}
    queue = deque(found)
    while queue:
        state = queue.popleft()
        for start in before.get(state, ()):
            if start not in found:
                found[start] = found[state] + 1
                queue.append(start)
    return found
