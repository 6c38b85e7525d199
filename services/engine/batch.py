"""Continuous batching: sequences join and leave between any two forward passes. Not thread-safe; one thread steps it.

Every answer is of one version of the weights. When they change, every sequence in flight starts again from its prompt
with the generator it began with, and everything that was computed is forgotten.
"""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field

import numpy as np

from services.engine.prefix_cache import PrefixCache
from services.engine.sampling import Draw, sample
from services.engine.transformer import Chunk, KeyValues, forward
from services.engine.weights import Weights

_WORTH_WAITING = 16
"""Tokens. A request waits for another that is computing a prefix they share if that is at least so much longer than
what is there already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRequest:
    """One answer to one prompt.

    Attributes:
        stop_ids: tokens that end the answer, beside the model's own end tokens.
        ignore_end: the model's own end tokens do not end it.
        seed: None draws from the engine's own generator.
    """

    prompt_ids: tuple[int, ...]
    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    stop_ids: frozenset[int] = frozenset()
    ignore_end: bool = False
    seed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What was drawn. `finish_reason` is "stop", "length" or "abort"; the stop token is part of `token_ids`.

    Attributes:
        logprobs: natural-log probability of each token at temperature 1.
        reused: tokens of the prompt whose keys and values were there already.
    """

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: str
    version: str
    reused: int


@dataclass(slots=True)
class Counters:
    """What the engine has done since it started."""

    steps: int = 0
    prompt_tokens: int = 0
    reused_tokens: int = 0
    computed_tokens: int = 0
    generated_tokens: int = 0
    finished: dict[str, int] = field(default_factory=lambda: {"stop": 0, "length": 0, "abort": 0, "cancelled": 0})


@dataclass(slots=True, eq=False)
class Job:
    """A request on its way through the engine."""

    request: SampleRequest
    future: Future[Sample]
    prompt: np.ndarray[tuple[int], np.dtype[np.int32]]
    generator: np.random.Generator | None = None
    cache: KeyValues | None = None
    reused: int = 0
    token_ids: list[int] = field(default_factory=list[int])
    logprobs: list[float] = field(default_factory=list[float])

    def pending(self) -> list[int] | tuple[int, ...]:
        """Tokens that are known but not computed."""
        computed = self.cache.length if self.cache else 0
        prompt = self.request.prompt_ids
        if computed < len(prompt):
            return prompt[computed:]
        return self.token_ids[computed - len(prompt) :]

    def forget(self) -> None:
        """Back to the prompt."""
        self.cache, self.generator, self.reused = None, None, 0
        self.token_ids, self.logprobs = [], []


class Batch:
    """The sequences in flight over one version of the weights."""

    def __init__(self, weights: Weights, *, max_batch: int, max_step_tokens: int, cache_bytes: int) -> None:
        self.weights = weights
        self.counters = Counters()
        self.prefixes = PrefixCache(max_bytes=cache_bytes)
        self.waiting: deque[Job] = deque()
        self.running: list[Job] = []
        self._max_batch = max_batch
        self._max_step_tokens = max_step_tokens
        self._generator = np.random.default_rng()

    @property
    def idle(self) -> bool:
        """Nothing is in flight."""
        return not self.running and not self.waiting

    def step(self) -> None:
        """One forward pass: admits what fits, computes, draws, and hands out what is finished."""
        self._drop_cancelled()
        self._admit()
        planned = list(self._plan())
        if not planned:
            return
        logits = forward(
            self.weights.model, [Chunk(token_ids=ids, cache=job.cache) for job, ids in planned if job.cache is not None]
        )
        self.counters.steps += 1
        self.counters.computed_tokens += sum(len(ids) for _, ids in planned)
        ready = [(row, job) for row, (job, _) in enumerate(planned) if not job.pending()]
        if ready:
            tokens, logprobs = sample(logits[[row for row, _ in ready]], [self._draw(job) for _, job in ready])
            for (_, job), token, logprob in zip(ready, tokens, logprobs, strict=True):
                self._append(job, token, logprob)

    def abort(self) -> None:
        """Ends everything in flight with what it has."""
        for job in [*self.running, *self.waiting]:
            self._finish(job, "abort")
        self.waiting.clear()

    def replace_weights(self, weights: Weights) -> None:
        """Everything in flight starts again from its prompt; nothing of the old weights is kept."""
        self.weights = weights
        self.prefixes.clear()
        for job in reversed(self.running):
            job.forget()
            self.waiting.appendleft(job)
        self.running.clear()

    def _drop_cancelled(self) -> None:
        for job in [job for job in self.running if job.future.cancelled()]:
            self._leave(job)
            self.counters.finished["cancelled"] += 1
        cancelled = sum(job.future.cancelled() for job in self.waiting)
        if cancelled:
            self.waiting = deque(job for job in self.waiting if not job.future.cancelled())
            self.counters.finished["cancelled"] += cancelled

    def _admit(self) -> None:
        postponed: list[Job] = []
        while self.waiting and len(self.running) < self._max_batch:
            job = self.waiting.popleft()
            if self._start(job):
                self.running.append(job)
            else:
                postponed.append(job)
        self.waiting.extendleft(reversed(postponed))

    def _start(self, job: Job) -> bool:
        """Gives the job the longest prefix there is; False where a longer one is being computed by another."""
        most = len(job.prompt) - 1  # the last token is computed anyway, for its logits
        prompt = job.prompt[:most]
        idle, shared = self.prefixes.longest(prompt)
        source: KeyValues | None = idle
        for other in self.running:
            if other.cache is None:
                continue
            same = other.cache.common_prefix(prompt, beyond=shared)
            if same > shared:
                source, shared = other.cache, same
        if self._soon(prompt, beyond=shared + _WORTH_WAITING):
            return False
        room = len(job.prompt) + job.request.max_tokens
        if source is None:
            job.cache = KeyValues.of(self.weights.model)
        elif source is idle:
            job.cache = self.prefixes.use(source, shared, room=room)
        else:
            job.cache = source.prefix(shared, room=room)
        job.reused = shared
        job.generator = None if job.request.seed is None else np.random.default_rng(job.request.seed)
        self.counters.prompt_tokens += len(job.prompt)
        self.counters.reused_tokens += shared
        return True

    def _soon(self, prompt: np.ndarray[tuple[int], np.dtype[np.int32]], *, beyond: int) -> bool:
        """A running job is on its way to a prefix of more than `beyond` tokens."""
        for other in self.running:
            most = min(len(prompt), len(other.prompt))
            if other.cache is None or other.cache.length >= len(other.prompt) or most <= beyond:
                continue
            if bool((prompt[:beyond] == other.prompt[:beyond]).all()) and prompt[beyond] == other.prompt[beyond]:
                return True
        return False

    def _plan(self) -> Iterator[tuple[Job, list[int] | tuple[int, ...]]]:
        """Sequences that draw come first, one token each; prompts share what is left of the step."""
        left = self._max_step_tokens
        for job, ids in sorted(((job, job.pending()) for job in self.running), key=lambda item: len(item[1])):
            if left <= 0:
                return
            yield job, ids[:left]
            left -= len(ids[:left])

    def _draw(self, job: Job) -> Draw:
        request = job.request
        uniform = (job.generator or self._generator).random()
        return Draw(temperature=request.temperature, top_p=request.top_p, uniform=uniform)

    def _append(self, job: Job, token: int, logprob: float) -> None:
        job.token_ids.append(token)
        job.logprobs.append(logprob)
        self.counters.generated_tokens += 1
        ends = not job.request.ignore_end and token in self.weights.end_ids
        if ends or token in job.request.stop_ids:
            self._finish(job, "stop")
        elif len(job.token_ids) == job.request.max_tokens:
            self._finish(job, "length")

    def _finish(self, job: Job, reason: str) -> None:
        self._leave(job)
        self.counters.finished[reason] += 1
        answer = Sample(
            token_ids=tuple(job.token_ids),
            logprobs=tuple(job.logprobs),
            finish_reason=reason,
            version=self.weights.version,
            reused=job.reused,
        )
        try:
            job.future.set_result(answer)
        except InvalidStateError:  # the caller has gone away since the last look
            self.counters.finished["cancelled"] += 1

    def _leave(self, job: Job) -> None:
        if job in self.running:
            self.running.remove(job)
        if job.cache is not None:
            self.prefixes.put(job.cache)
            job.cache = None
