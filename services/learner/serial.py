"""The learner off the event loop: one thing at a time, in a thread of its own.

A call that waits keeps its turn; a caller that hangs up does not stop what has begun, since half a step or half a
publish would be worse than one that nobody waits for. `state` tells what became of it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol, TypeVar

from tokenizers import Tokenizer

from prover.policies.publish import Probe, Published, Publisher, PublishFailed
from prover.training import LearnerState, StepMetrics
from prover.trajectory import CreditedTrajectory, Turn
from services.learner.leader import Leader
from services.learner.learner import Learner

_T = TypeVar("_T")

MAX_HELD = 8
"""Calls that wait or are worked on."""

PROBE_TEXT = "You are in the middle of a room. Looking quickly around you, you see a cabinet 1, a desk 1, a shelf 1."
"""What the engine is asked to continue, to prove a publish."""


class Observer(Protocol):
    """Whoever counts."""

    def stepped(self, metrics: StepMetrics) -> None:
        """A step was taken, or measured and found without a signal."""
        ...

    def published(self, published: Published) -> None:
        """A version serves."""
        ...

    def failed_to_publish(self) -> None:
        """A version does not."""
        ...


class LearnerBusy(Exception):
    """As many calls wait as may. Try again when one of them is done."""


class SerialLearner:
    """`Learner` for many callers. At most `MAX_HELD` calls at a time; each holds its batch in memory."""

    def __init__(
        self,
        learner: Learner | Leader,
        publisher: Publisher,
        *,
        probe_tokens: tuple[int, ...],
        probe_tolerance: float,
        observer: Observer,
    ) -> None:
        self._learner = learner
        self._publisher = publisher
        self._probe_tokens = probe_tokens
        self._probe_tolerance = probe_tolerance
        self._observer = observer
        self._turn = asyncio.Lock()
        self._held: set[asyncio.Task[object]] = set()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="learner")

    async def step(self, batch: Sequence[CreditedTrajectory], *, after_step: int | None) -> StepMetrics:
        """See `Learner.step`. Raises LearnerBusy as well."""

        async def work() -> StepMetrics:
            metrics = await self._call(lambda: self._learner.step(batch, after_step=after_step))
            self._observer.stepped(metrics)
            return metrics

        return await self._in_turn(work)

    async def score(self, turns: Sequence[Turn]) -> list[tuple[float, ...]]:
        """See `Learner.score`. Raises LearnerBusy as well."""
        return await self._in_turn(lambda: self._call(lambda: self._learner.score(turns)))

    async def publish(self) -> Published:
        """Saves the present weights as a version and has the engine serve them, proven.

        Raises PublishFailed (the version before serves on), WriteFailed, LearnerBusy.
        """
        return await self._in_turn(self._publish)

    async def state(self) -> LearnerState:
        """How far training has come; waits for nothing."""
        return self._learner.state

    def close(self) -> None:
        """Waits for what has begun."""
        self._thread.shutdown()

    async def _publish(self) -> Published:
        folder = await self._call(self._learner.save_version)
        probe = Probe(context_token_ids=self._probe_tokens, score=self._score_probe, tolerance=self._probe_tolerance)
        previous = self._learner.published_path
        try:
            published = await self._publisher.publish(str(folder), probe=probe, previous_path=previous)
        except PublishFailed:
            self._observer.failed_to_publish()
            raise
        await self._call(lambda: self._learner.mark_published(folder))
        self._observer.published(published)
        return published

    async def _score_probe(self, context: Sequence[int], sampled: Sequence[int]) -> Sequence[float]:
        turn = Turn(observation="", text="", action=None, context_token_ids=tuple(context), token_ids=tuple(sampled))
        return (await self._call(lambda: self._learner.score([turn])))[0]

    async def _in_turn(self, work: Callable[[], Awaitable[_T]]) -> _T:
        if len(self._held) >= MAX_HELD:
            raise LearnerBusy(f"{len(self._held)} calls wait or are worked on; expected fewer than {MAX_HELD}")

        async def held() -> _T:
            async with self._turn:
                return await work()

        task = asyncio.create_task(held())
        self._held.add(task)
        task.add_done_callback(self._held.discard)
        return await asyncio.shield(task)

    async def _call(self, function: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)


def tokenize_probe(weights: Path, *, longest: int = 64) -> tuple[int, ...]:
    """The probe's text in the tokens of the weights' tokenizer.json. Raises ValueError where that is not there."""
    path = weights / "tokenizer.json"
    if not path.is_file():
        raise ValueError(f"weights: {path}: was not there; expected the tokenizer of the weights")
    return tuple(Tokenizer.from_file(str(path)).encode(PROBE_TEXT, add_special_tokens=False).ids[:longest])
