"""Two experts. `plan` knows everything and is as short as can be; `Searcher` knows what it has read and has to look.

The searcher is the demonstrator for policies that read text: it uses the observations and nothing else, looks where
such things are usually found in an order of its own, remembers what it saw on the way, and then does the task. It can
be asked in the middle of anybody's game, which makes it the hint of `prover play`.

    searcher = Searcher(first_observation, seed=3)
    command = searcher.next_command()
    searcher.observe(command, environment.step(command).observation)
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from prover.environments.alfworld.expert_memory import Memory, kind, read_goal
from prover.environments.alfworld.expert_plan import plan, plan_from
from prover.environments.alfworld.rooms import ROOMS
from prover.environments.environment import Environment
from prover.trajectory import Task

__all__ = ["Demonstration", "Searcher", "explore", "plan", "plan_from"]

_TOOLS: Mapping[str, str] = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}
"""Treatment -> the type of receptacle that it needs."""

_UNLIKELY = 0.02
"""Weight of a receptacle in which such a thing has never been seen: looked into last, as a rule."""


class Searcher:
    """Plays one game from its texts. Equal seeds and texts give equal commands.

    Raises ValueError where the first observation states no task in ALFWorld's wording.
    """

    def __init__(self, first_observation: str, *, seed: int = 0) -> None:
        self._goal = read_goal(first_observation)
        self._memory = Memory(first_observation)
        self._rng = random.Random(seed)
        self._orders: dict[str, list[str]] = {}
        self._target: str | None = None

    def observe(self, command: str, observation: str) -> None:
        """Takes in a command, its own or anybody's, and the answer to it."""
        self._memory.observe(command, observation)

    def next_command(self) -> str:
        """What to do now. "look" where nothing is left to try."""
        holding = self._memory.holding
        if holding is None:
            return self._fetch()
        if kind(holding) != self._goal.thing:
            return self._put_away(holding)
        if self._goal.light:
            return self._light()
        treatment = self._goal.treatment
        if treatment is not None and (treatment, holding) not in self._memory.treated:
            return self._treat(treatment, holding)
        return self._deliver(holding)

    def _fetch(self) -> str:
        for thing, place in self._memory.where(self._goal.thing):
            if self._is_done(place):
                self._target = place
            else:
                return self._reach(place) or f"take {thing} from {place}"
        return self._search(self._goal.thing)

    def _is_done(self, place: str) -> bool:
        """An object in `place` is one of the two that the task asks for."""
        return self._goal.count == 2 and (place == self._target or self._target is None) and self._suits(place)

    def _suits(self, place: str) -> bool:
        return kind(place) == self._goal.target

    def _treat(self, treatment: str, holding: str) -> str:
        tools = [place for place in self._memory.receptacles if kind(place) == _TOOLS[treatment]]
        if not tools:
            return "look"
        return self._go(tools[0]) or f"{treatment} {holding} with {tools[0]}"

    def _deliver(self, holding: str) -> str:
        target = self._target or self._choose_target()
        if target is None:
            return "look"
        self._target = target
        return self._reach(target) or self._put(holding, target)

    def _choose_target(self) -> str | None:
        targets = [place for place in self._memory.receptacles if self._suits(place)]
        near = [place for place in targets if place in self._memory.here]
        if not targets:
            return None
        return near[0] if near else self._rng.choice(targets)

    def _light(self) -> str:
        for lamp, place in self._memory.where(self._goal.target):
            return self._go(place) or f"use {lamp}"
        return self._search(self._goal.target)

    def _put_away(self, holding: str) -> str:
        """Gets rid of a thing that the task does not ask for: back into what is within reach and open."""
        for place in sorted(self._memory.here - self._memory.closed):
            return self._put(holding, place)
        return self._reach(self._memory.receptacles[0]) or "look"

    def _put(self, thing: str, place: str) -> str:
        return f"put {thing} in/on {place}" if self._memory.says_move is False else f"move {thing} to {place}"

    def _search(self, wanted: str) -> str:
        """Looks into the next receptacle that nobody has looked into yet."""
        if wanted not in self._orders:
            self._orders[wanted] = self._order(wanted)
        unseen = [place for place in self._orders[wanted] if place not in self._memory.contents]
        near = [place for place in unseen if place in self._memory.here]
        for place in near or unseen:
            return self._reach(place) or f"examine {place}"
        return "look"

    def _order(self, wanted: str) -> list[str]:
        """The receptacles in a random order, likely ones first as a rule."""
        weights = _habits().get(wanted, {})
        kinds = [kind(place) for place in self._memory.receptacles]

        def lateness(place: str) -> float:
            return self._rng.expovariate(weights.get(kind(place), _UNLIKELY) / kinds.count(kind(place)))

        return sorted(self._memory.receptacles, key=lateness)

    def _go(self, place: str) -> str | None:
        return None if place in self._memory.here else f"go to {place}"

    def _reach(self, place: str) -> str | None:
        """The next step towards an open `place`; None where one stands before it."""
        return self._go(place) or (f"open {place}" if place in self._memory.closed else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """One game as the searcher played it. `observations[i]` is what it had read last before `commands[i]`."""

    observations: tuple[str, ...]
    commands: tuple[str, ...]
    success: bool


def explore(environment: Environment, task: Task, *, seed: int = 0, max_turns: int = 50) -> Demonstration:
    """Plays a task with a `Searcher` until it is solved or `max_turns` commands are spent."""
    observation = environment.reset(task).text
    searcher = Searcher(observation, seed=seed)
    observations: list[str] = []
    commands: list[str] = []
    success = False
    for _ in range(max_turns):
        command = searcher.next_command()
        observations.append(observation)
        commands.append(command)
        step = environment.step(command)
        observation, success = step.observation, step.success
        searcher.observe(command, observation)
        if step.done:
            break
    return Demonstration(observations=tuple(observations), commands=tuple(commands), success=success)


@cache
def _habits() -> Mapping[str, Mapping[str, float]]:
    """Type of object -> type of receptacle -> how often such a thing is found there. Lower case, as in the texts."""
    habits: dict[str, dict[str, float]] = {}
    for room in ROOMS.values():
        for thing, places in room.things.items():
            known = habits.setdefault(thing.lower(), {})
            for place, weight in places.items():
                known[place.lower()] = max(known.get(place.lower(), 0.0), float(weight))
    return habits
