"""The group as a Markov chain under a deadline: its recorded states, the moves between them, and what each is worth.

States are named by their digests. Every move that some trajectory of the group made is an edge; a trajectory's last
move leads to the end, WON or LOST. Numbers: S states, E edges, L turns in all, T turns of a trajectory.
"""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from prover.trajectory import Ending, Group, Trajectory

WON = "won"
LOST = "lost"

State = tuple[str, str]
"""("state", digest), or ("end", WON or LOST)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Attributes:
    rows: the number of each state.
    values: (L + 1, S), the chance to win from a state with n turns left, if moves are drawn as the group made them.
    distances: fewest recorded moves from each state to a win; states from which nobody won are absent.
    """

    rows: Mapping[State, int]
    values: NDArray[np.float64]
    distances: Mapping[State, int]

    def values_along(self, trajectory: Trajectory) -> tuple[float, ...]:
        """(T + 1,): the value before each turn of any trajectory of the group, and at its end."""
        longest = len(self.values) - 1
        states = _states_along(trajectory)
        return tuple(float(self.values[longest - turn, self.rows[state]]) for turn, state in enumerate(states))

    def timeless_along(self, trajectory: Trajectory) -> tuple[float, ...]:
        """(T + 1,): the same as if all turns were left at each: what the states are worth, apart from the time."""
        return tuple(float(self.values[-1, self.rows[state]]) for state in _states_along(trajectory))

    def distances_along(self, trajectory: Trajectory) -> tuple[int, ...]:
        """(T + 1,): the distance before each turn of a successful trajectory of the group, and at its end."""
        return tuple(self.distances[state] for state in _states_along(trajectory))


def chain(group: Group, *, prior: float) -> Chain | None:
    """The chain of a group; None where a turn has no digest.

    The group does not say how many turns there were: L is the most that one of its trajectories took. With n turns
    left a state that was left N times is worth

        V(s, n) = (sum over its N moves of V(where they led to, n - 1) + prior * p * n / L) / (N + prior)

    where p is the group's success rate; WON is worth 1, LOST and whatever has no turns left 0. A trajectory that was
    stopped (out of turns, of context) made no move to LOST by that: the deadline ends it here too.
    """
    if any(turn.digest is None for trajectory in group.trajectories for turn in trajectory.turns):
        return None
    moves: Counter[tuple[State, State]] = Counter()
    for trajectory in group.trajectories:
        states = _states_along(trajectory)
        stopped = not trajectory.success and trajectory.ending is not Ending.FINISHED
        moves.update(pairwise(states[:-1] if stopped else states))
    names = sorted({state for trajectory in group.trajectories for state in _states_along(trajectory)})
    rows = {state: row for row, state in enumerate(names)}
    return Chain(rows=rows, values=_values(moves, rows, group, prior), distances=_distances(moves))


def _states_along(trajectory: Trajectory) -> list[State]:
    """The state before each turn, and the end."""
    end = WON if trajectory.success else LOST
    return [*(("state", turn.digest or "") for turn in trajectory.turns), ("end", end)]


def _values(
    moves: Mapping[tuple[State, State], int], rows: Mapping[State, int], group: Group, prior: float
) -> NDArray[np.float64]:
    edges = sorted(moves)  # in an order that does not depend on the group's
    from_E = np.array([rows[start] for start, _ in edges], dtype=np.intp)
    to_E = np.array([rows[end] for _, end in edges], dtype=np.intp)
    count_E = np.array([moves[edge] for edge in edges], dtype=np.float64)
    rate = sum(trajectory.success for trajectory in group.trajectories) / len(group.trajectories)
    longest = max(len(trajectory.turns) for trajectory in group.trajectories)
    left_S = np.bincount(from_E, weights=count_E, minlength=len(rows)) + prior
    left_S = np.where(left_S > 0, left_S, 1.0)  # never left and no prior: nothing to divide
    ends_S = np.array([state[0] == "end" for state in rows])
    won_S = np.array([float(state == ("end", WON)) for state in rows])
    values = np.tile(won_S, (longest + 1, 1))
    for turns in range(1, longest + 1):
        reached_S = np.bincount(from_E, weights=count_E * values[turns - 1, to_E], minlength=len(rows))
        values[turns] = np.where(ends_S, won_S, (reached_S + prior * rate * turns / longest) / left_S)
    return values


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
