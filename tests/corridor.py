"""A world and a policy small enough to know by heart, for tests of whatever plays episodes.

The corridor has `length` doors; "go" passes one, anything else is refused. The policy speaks in characters: its tokens
are code points, and it samples "go" or "no" from a generator seeded by the request, so that episodes differ by seed.
"""

import asyncio
import random
from collections.abc import Callable, Sequence

from prover.environments.environment import Observation, Step
from prover.policies.policy import Completion, ContextTooLong, PolicyInfo, Sampling
from prover.trajectory import Task


class Corridor:
    """Passes one door at each "go"."""

    deterministic = True
    can_snapshot = False

    def __init__(self, length: int = 3) -> None:
        self._length = length
        self._passed = -1

    def reset(self, task: Task) -> Observation:
        if task.task_id != "corridor":
            raise ValueError(f"task.task_id: was {task.task_id!r}; expected 'corridor'")
        self._passed = 0
        return Observation(text=f"{self._length} doors")

    def step(self, action: str) -> Step:
        valid = action == "go"
        self._passed += valid
        done = self._passed == self._length
        return Step(observation="a door", reward=float(done), done=done, success=done, valid=valid)

    def admissible(self) -> list[str] | None:
        return ["go"]

    def snapshot(self) -> bytes:
        raise NotImplementedError

    def restore(self, state: bytes) -> None:
        raise NotImplementedError

    def digest(self) -> str:
        return str(self._passed)


def make_corridor(name: str) -> Corridor:
    """Only "corridor" is known."""
    if name != "corridor":
        raise ValueError(f"environment: was {name!r}; expected one of corridor")
    return Corridor()


class Talker:
    """Samples "go" with probability `skill`. `before_turn(number)` may change the version, fail or wait."""

    def __init__(
        self, *, skill: float = 0.5, max_context: int = 10_000, before_turn: Callable[[int], None] | None = None
    ) -> None:
        self.version = "v0"
        self.turns = 0
        self.in_flight = 0
        self.most_in_flight = 0
        self.cancelled = 0
        self.delay_s = 0.0
        self._skill = skill
        self._max_context = max_context
        self._before_turn = before_turn

    async def complete(self, context_token_ids: Sequence[int], sampling: Sampling) -> Completion:
        if len(context_token_ids) + sampling.max_tokens > self._max_context:
            raise ContextTooLong("too long")
        self.turns += 1
        if self._before_turn is not None:
            self._before_turn(self.turns)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(self.delay_s)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.in_flight -= 1
        text = "go\n" if random.Random(sampling.seed).random() < self._skill else "no\n"
        return Completion(
            token_ids=tuple(map(ord, text)),
            logprobs=(-0.5,) * len(text),
            text=text,
            finish_reason="stop",
            policy_version=self.version,
        )

    async def tokenize(self, text: str) -> tuple[int, ...]:
        return tuple(map(ord, text))

    async def info(self) -> PolicyInfo:
        return PolicyInfo(model="talker", version=self.version, max_context=self._max_context)
