"""An enumerable household: find an object, take it, heat it where asked, put it where asked. Values are exact.

The world of the method's second study, told in text: 8 places, some of them closed, one object that is wanted and one
that is not. The policy is a fixed softmax over the state's actions whose weak spot differs from task to task, so that
the pivotal turn does too. Dynamic programming over (state, turns left) gives V at every turn of every trajectory.

Arrays: S states, A actions of a state (padded).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from prover.trajectory import Ending, Group, Task, Trajectory, Turn

PLACES = ("shelf 1", "shelf 2", "drawer 1", "drawer 2", "cabinet 1", "counter 1", "stove 1", "table 1")
CLOSED = frozenset({2, 3, 4})
WANTED = ("mug", "egg", "potato", "apple")
OTHER = ("knife", "book", "plate", "fork")
HAND = len(PLACES)


@dataclass(frozen=True, slots=True)
class State:
    """Where everything is. `at` is -1 before the first move; objects are at a place or in the HAND; `open` is about
    the place where the agent stands: places fall shut behind it."""

    at: int
    open: bool
    wanted_at: int
    other_at: int
    hot: bool


@dataclass(frozen=True, slots=True)
class Move:
    """One action in one state: what is written, where it leads (None: the task is solved), and its logit."""

    action: str
    to: State | None
    logit: float
    valid: bool = True


class Household:
    """One task and the weak policy that tries it."""

    max_turns = 24

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.task = Task(environment="household", task_id=f"household/{seed}", seed=seed)
        self.wanted, self.other = str(rng.choice(WANTED)), str(rng.choice(OTHER))
        self.heater, self.goal = 6, int(rng.choice([5, 7]))
        self.needs_heat = bool(rng.random() < 0.5)
        spots = [place for place in range(len(PLACES)) if place not in (self.heater, self.goal)]
        self.start = State(-1, False, int(rng.choice(spots)), int(rng.choice(spots)), False)
        self._popular = rng.normal(0.0, 1.0, len(PLACES))
        self._popular[self.start.wanted_at] -= rng.choice([0.0, 1.5])
        self._policies: dict[State, tuple[list[Move], NDArray[np.float64]]] = {}
        self._skill = {name: float(rng.choice([-0.5, 1.0, 2.5])) for name in ("open", "take", "heater", "heat", "goal")}

    def opening(self) -> str:
        """What the policy reads first."""
        asked = f"put a hot {self.wanted} on {PLACES[self.goal]}" if self.needs_heat else ""
        places = ", ".join(f"a {place}" for place in PLACES)
        return (
            f"You are in a room with {places}.\nYour task is: {asked or f'put a {self.wanted} on {PLACES[self.goal]}'}."
        )

    def moves(self, state: State) -> list[Move]:
        """Every action of a state. Their softmax is the policy."""
        found = [Move("look", state, -1.0), Move("dance with the lamp", state, -1.5, valid=False)]
        holds_wanted, holds_other = state.wanted_at == HAND, state.other_at == HAND
        for place, name in enumerate(PLACES):
            if place == state.at:
                continue
            ready = holds_wanted and (state.hot or not self.needs_heat)
            pull = self._skill["goal"] if ready and place == self.goal else 0.0
            pull += self._skill["heater"] if holds_wanted and not ready and place == self.heater else 0.0
            to = State(place, place not in CLOSED, state.wanted_at, state.other_at, state.hot)
            found.append(Move(f"go to {name}", to, float(self._popular[place]) + pull))
        if state.at < 0:
            return found
        return found + self._at_place(state, holds_wanted=holds_wanted, holds_other=holds_other)

    def policy(self, state: State) -> tuple[list[Move], NDArray[np.float64]]:
        """The moves of a state and the chance of each."""
        if state not in self._policies:
            moves = self.moves(state)
            self._policies[state] = (moves, _softmax(np.array([move.logit for move in moves])))
        return self._policies[state]

    def _at_place(self, state: State, *, holds_wanted: bool, holds_other: bool) -> list[Move]:
        here, place, found = PLACES[state.at], state.at, list[Move]()
        if not state.open:
            opened = State(place, True, state.wanted_at, state.other_at, state.hot)
            return [Move(f"open {here}", opened, 1.0 + self._skill["open"])]
        if not holds_wanted and not holds_other:
            if state.wanted_at == place:
                to = State(place, True, HAND, state.other_at, state.hot)
                found.append(Move(f"take {self.wanted} from {here}", to, 2.0 + self._skill["take"]))
            if state.other_at == place:
                to = State(place, True, state.wanted_at, HAND, state.hot)
                found.append(Move(f"take {self.other} from {here}", to, 1.5))
        if holds_other:
            found.append(
                Move(f"put {self.other} on {here}", State(place, True, state.wanted_at, place, state.hot), 0.5)
            )
        if holds_wanted:
            solved = place == self.goal and (state.hot or not self.needs_heat)
            put = State(place, True, place, state.other_at, state.hot)
            found.append(Move(f"put {self.wanted} on {here}", None if solved else put, 3.0 if solved else -1.0))
            if place == self.heater and not state.hot:
                hot = State(place, True, HAND, state.other_at, True)
                found.append(Move(f"heat {self.wanted} with {here}", hot, 1.0 + self._skill["heat"]))
        return found

    def answer(self, move: Move) -> str:
        """What the policy reads after a move."""
        if not move.valid:
            return "Nothing happens."
        verb = move.action.split()[0]
        if move.to is None or verb in ("take", "put", "heat"):
            return f"You {move.action}."
        if move.to.at < 0:
            return "You are in the middle of the room."
        here, state = PLACES[move.to.at], move.to
        if not state.open:
            return f"You are at {here}. It is closed."
        seen = [name for name, at in ((self.wanted, state.wanted_at), (self.other, state.other_at)) if at == state.at]
        return f"You are at {here}. You see {' and '.join(f'a {name}' for name in seen) or 'nothing'}."

    @cached_property
    def values(self) -> tuple[dict[State, int], NDArray[np.float64]]:
        """Row number of each reachable state, and V of (turns left, state): chance of success of the policy."""
        rows, queue = {self.start: 0}, [self.start]
        nexts, chances = list[list[int]](), list[NDArray[np.float64]]()
        for state in queue:
            moves, chance = self.policy(state)
            chances.append(chance)
            row = list[int]()
            for move in moves:
                if move.to is not None and move.to not in rows:
                    rows[move.to] = len(rows)
                    queue.append(move.to)
                row.append(-1 if move.to is None else rows[move.to])
            nexts.append(row)
        widest = max(map(len, nexts))
        next_SA = np.array([row + [0] * (widest - len(row)) for row in nexts])
        chance_SA = np.array([np.pad(chance, (0, widest - len(chance))) for chance in chances])
        values = np.zeros((self.max_turns + 1, len(rows) + 1))
        values[:, -1] = 1.0  # index -1: the solved state
        for left in range(1, self.max_turns + 1):
            values[left, :-1] = (chance_SA * values[left - 1][next_SA]).sum(axis=1)
        return rows, values

    def play(self, rng: np.random.Generator, *, name: str) -> tuple[Trajectory, tuple[float, ...]]:
        """One episode, and V before each of its turns, then after the last."""
        rows, values = self.values
        state, observation, solved = self.start, self.opening(), False
        turns, worth = list[Turn](), list[float]()
        while len(turns) < self.max_turns and not solved:
            worth.append(float(values[self.max_turns - len(turns), rows[state]]))
            moves, chance = self.policy(state)
            move = moves[int(rng.choice(len(moves), p=chance))]
            turns.append(
                Turn(observation=observation, text=move.action, action=move.action, valid=move.valid, digest=str(state))
            )
            solved, observation = move.to is None, self.answer(move)
            state = move.to or state
        trajectory = Trajectory(
            id=name,
            task=self.task,
            policy_version="household-0",
            turns=tuple(turns),
            reward=float(solved),
            success=solved,
            ending=Ending.FINISHED if solved else Ending.STEP_LIMIT,
        )
        return trajectory, (*worth, float(solved))

    def group(self, size: int = 8, *, seed: int = 0) -> tuple[Group, dict[str, tuple[float, ...]]]:
        """A group of episodes, and V at the boundaries of each trajectory by its id."""
        rng = np.random.default_rng([self.task.seed, seed])
        played = [self.play(rng, name=f"t{index}") for index in range(size)]
        group = Group(
            task=self.task, policy_version="household-0", trajectories=tuple(trajectory for trajectory, _ in played)
        )
        return group, {trajectory.id: worth for trajectory, worth in played}


def _softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()
