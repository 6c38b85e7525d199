"""The engine: takes requests from any thread, decodes them together in one thread of its own.

Consumes: requests (`submit`), and commands that must fall between two forward passes (weights, pauses). Produces:
futures. Unblocks: the HTTP server that waits for them. If its thread dies, that is our bug: every request fails with
the error, and `healthy` says so.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, InvalidStateError
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from services.engine.batch import Batch, Counters, Job, Sample, SampleRequest
from services.engine.weights import Weights


class EngineFull(Exception):
    """As many sequences wait as may. Try again in a moment."""


class PromptTooLong(ValueError):
    """Prompt and answer do not fit into the context. The message has the numbers."""


class PauseMode(StrEnum):
    """What a pause does to what is in flight. Requests that come during any pause wait for its end."""

    ABORT = "abort"  # answered at once with what they have
    WAIT = "wait"  # finished first
    KEEP = "keep"  # frozen, and continued afterwards


class _State(StrEnum):
    RUNNING = "running"
    DRAINING = "draining"
    PAUSED = "paused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A look at the engine, for metrics."""

    version: str
    running: int
    waiting: int
    cached_sequences: int
    cached_bytes: int
    counters: Counters


class Engine:
    """Start it, submit, stop it."""

    def __init__(self, batch: Batch, *, max_in_flight: int) -> None:
        self._batch = batch
        self._max_in_flight = max_in_flight
        self._in_flight = 0
        self._inbox: deque[Job] = deque()
        self._held: deque[Job] | None = None  # what came after a pause began; None while there is none
        self._commands: deque[Callable[[], None]] = deque()
        self._drained: list[Future[None]] = []
        self._state = _State.RUNNING
        self._stopping = False
        self._failure: BaseException | None = None
        self._wake = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        """Begins to decode."""
        self._thread.start()

    def stop(self, *, timeout_s: float = 10.0) -> None:
        """Lets go of everything in flight and ends the thread."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join(timeout_s)

    @property
    def healthy(self) -> bool:
        """The thread is alive and decoding or ready to."""
        return self._thread.is_alive() and self._failure is None

    @property
    def paused(self) -> bool:
        """Nothing is decoded until `resume`."""
        return self._state is _State.PAUSED

    @property
    def weights(self) -> Weights:
        """What is served now."""
        return self._batch.weights

    def status(self) -> Status:
        """Numbers for metrics; each is right by itself, they may be a step apart."""
        batch = self._batch
        return Status(
            version=batch.weights.version,
            running=len(batch.running),
            waiting=len(batch.waiting) + len(self._inbox) + len(self._held or ()),
            cached_sequences=len(batch.prefixes),
            cached_bytes=batch.prefixes.num_bytes,
            counters=batch.counters,
        )

    def submit(self, requests: Sequence[SampleRequest]) -> list[Future[Sample]]:
        """Takes all of them or none. Cancelling a future drops its request.

        Raises PromptTooLong, EngineFull, ValueError for tokens that the policy does not know.
        """
        for request in requests:
            self._check(request)
        jobs = [
            Job(request=request, future=Future(), prompt=np.array(request.prompt_ids, dtype=np.int32))
            for request in requests
        ]
        with self._wake:
            if self._failure is not None or self._stopping:
                raise EngineFull(f"the engine has stopped: {self._failure or 'it was told to'}")
            if self._in_flight + len(jobs) > self._max_in_flight:
                raise EngineFull(
                    f"{self._in_flight} sequences are in flight and {len(jobs)} were asked for; "
                    f"expected at most {self._max_in_flight} together"
                )
            self._in_flight += len(jobs)
            (self._inbox if self._held is None else self._held).extend(jobs)
            self._wake.notify()
        for job in jobs:
            job.future.add_done_callback(self._forget)
        return [job.future for job in jobs]

    def replace_weights(self, weights: Weights) -> Future[None]:
        """Swaps between two forward passes: see `batch` for what happens to requests in flight."""
        return self._command(lambda: self._batch.replace_weights(weights))

    def clear_prefixes(self) -> Future[None]:
        """Forgets the keys and values of finished sequences."""
        return self._command(self._batch.prefixes.clear)

    def pause(self, mode: PauseMode) -> Future[None]:
        """Done once nothing is decoded any more."""
        done = _promise()

        def begin() -> None:
            if mode is PauseMode.WAIT and not self._batch.idle:
                self._state = _State.DRAINING
                self._drained.append(done)
                return
            if mode is PauseMode.ABORT:
                self._batch.abort()
            self._pause()
            done.set_result(None)

        with self._wake:
            self._held = deque() if self._held is None else self._held
            self._send(begin)
        return done

    def resume(self) -> Future[None]:
        """Goes on after a pause."""

        def end() -> None:
            self._settle_drained()
            self._state = _State.RUNNING

        with self._wake:
            self._inbox.extend(self._held or ())
            self._held = None
            return self._command(end)

    def _check(self, request: SampleRequest) -> None:
        weights = self._batch.weights
        prompt, asked = len(request.prompt_ids), request.max_tokens
        if prompt + asked > weights.max_context:
            raise PromptTooLong(
                f"prompt: this model's maximum context length is {weights.max_context} tokens, and the request has "
                f"{prompt} in the prompt and asks for {asked} more"
            )
        last = int(weights.model.config.vocab_size or 0) - 1
        for token in (min(request.prompt_ids), max(request.prompt_ids)):
            if not 0 <= token <= last:
                raise ValueError(f"prompt: token id was {token}; expected 0 to {last}")

    def _forget(self, _: Future[Sample]) -> None:
        with self._wake:
            self._in_flight -= 1
            self._wake.notify()

    def _command(self, act: Callable[[], None]) -> Future[None]:
        done = _promise()

        def run() -> None:
            act()
            done.set_result(None)

        self._send(run)
        return done

    def _send(self, command: Callable[[], None]) -> None:
        with self._wake:
            self._commands.append(command)
            self._wake.notify()

    def _run(self) -> None:
        try:
            while self._wait_for_work():
                self._obey()
                if self._state is not _State.PAUSED:
                    self._batch.step()
                if self._state is _State.DRAINING and self._batch.idle:
                    self._pause()
        except BaseException as error:
            self._failure = error
            raise
        finally:
            self._fail_all()

    def _wait_for_work(self) -> bool:
        """Sleeps while there is nothing to do. False once the engine is to stop."""
        with self._wake:
            self._wake.wait_for(
                lambda: self._stopping or self._commands or (self._state is not _State.PAUSED and self._has_work())
            )
            return not self._stopping

    def _has_work(self) -> bool:
        return bool(self._inbox) or not self._batch.idle

    def _obey(self) -> None:
        """Commands see every request that came before them."""
        with self._wake:
            commands, self._commands = self._commands, deque()
            self._batch.waiting.extend(self._inbox)
            self._inbox.clear()
        for command in commands:
            command()

    def _pause(self) -> None:
        self._state = _State.PAUSED
        self._settle_drained()

    def _settle_drained(self) -> None:
        drained, self._drained = self._drained, []
        for future in drained:
            future.set_result(None)

    def _fail_all(self) -> None:
        with self._wake:
            jobs = [*self._batch.running, *self._batch.waiting, *self._inbox, *(self._held or ())]
        for job in jobs:
            try:
                job.future.set_exception(self._failure or CancelledError("the engine was stopped"))
            except InvalidStateError:
                continue


def _promise() -> Future[None]:
    """A future that whoever waits for it cannot cancel: the command is carried out all the same."""
    future: Future[None] = Future()
    future.set_running_or_notify_cancel()
    return future
