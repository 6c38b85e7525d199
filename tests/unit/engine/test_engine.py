"""The engine's thread: limits, pauses, commands between steps."""

from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as NotYet
from pathlib import Path

import pytest

from services.engine.batch import Sample, SampleRequest
from services.engine.engine import Engine, EngineFull, PauseMode, PromptTooLong
from services.engine.weights import Weights
from tests.unit.engine.builders import MAX_CONTEXT, engine, weights

WAIT_S = 20.0
Start = Callable[..., Engine]


def ask(*, max_tokens: int = 8, prompt: tuple[int, ...] = (1, 2, 3, 4)) -> SampleRequest:
    """A small request."""
    return SampleRequest(prompt_ids=prompt, max_tokens=max_tokens, seed=1)


@pytest.fixture
def of(tmp_path: Path) -> Weights:
    """Weights of the smallest policy."""
    return weights(tmp_path)


@pytest.fixture
def start(of: Weights) -> Iterator[Start]:
    """Starts engines, and stops them."""
    started: list[Engine] = []

    def make(*, max_batch: int = 8, max_in_flight: int = 64) -> Engine:
        started.append(engine(of, max_batch=max_batch, max_in_flight=max_in_flight))
        started[-1].start()
        return started[-1]

    yield make
    for each in started:
        each.stop()


def one(of: Engine, request: SampleRequest) -> Future[Sample]:
    """Submits a single request."""
    return of.submit([request])[0]


def test_more_than_may_wait_is_refused_as_a_whole(start: Start) -> None:
    small = start(max_in_flight=3)
    small.pause(PauseMode.KEEP).result(WAIT_S)
    small.submit([ask(), ask()])
    with pytest.raises(EngineFull, match="2 sequences are in flight and 2 were asked for; expected at most 3"):
        small.submit([ask(), ask()])
    third = one(small, ask())
    small.resume().result(WAIT_S)
    assert third.result(WAIT_S).finish_reason == "length"
    assert one(small, ask()).result(WAIT_S)


def test_a_prompt_that_does_not_fit_is_refused_with_the_numbers(start: Start) -> None:
    with pytest.raises(PromptTooLong, match=f"maximum context length is {MAX_CONTEXT} tokens.* 250 .* 7 more"):
        one(start(), ask(prompt=(1,) * 250, max_tokens=7))


@pytest.mark.parametrize("token", [-1, 13])
def test_a_token_that_the_policy_does_not_know_is_refused(start: Start, token: int) -> None:
    with pytest.raises(ValueError, match=f"token id was {token}; expected 0 to 12"):
        one(start(), ask(prompt=(1, token, 2)))


def test_a_frozen_request_goes_on_after_the_pause(start: Start) -> None:
    used = start()
    plain = one(used, ask(max_tokens=200)).result(WAIT_S)
    used.pause(PauseMode.KEEP).result(WAIT_S)
    held = one(used, ask(max_tokens=200))
    with pytest.raises(NotYet):
        held.result(0.2)
    assert used.paused
    used.resume().result(WAIT_S)
    assert held.result(WAIT_S).token_ids == plain.token_ids


def test_a_pause_that_waits_finishes_what_came_before_and_holds_what_comes_after(start: Start) -> None:
    used = start(max_batch=1)
    before = [one(used, ask(max_tokens=100)) for _ in range(3)]
    paused = used.pause(PauseMode.WAIT)
    after = one(used, ask())
    paused.result(WAIT_S)
    assert all(future.done() for future in before)
    assert not after.done()
    used.resume().result(WAIT_S)
    assert after.result(WAIT_S)


def test_a_pause_that_aborts_answers_at_once(start: Start) -> None:
    used = start(max_batch=1)
    futures = [one(used, ask(max_tokens=240)) for _ in range(4)]
    used.pause(PauseMode.ABORT).result(WAIT_S)
    assert futures[-1].result(WAIT_S).finish_reason == "abort"
    assert used.paused


def test_weights_change_under_a_frozen_request(start: Start, tmp_path: Path) -> None:
    used = start()
    used.pause(PauseMode.KEEP).result(WAIT_S)
    held = one(used, ask())
    used.replace_weights(weights(tmp_path / "new", seed=3, version="v1")).result(WAIT_S)
    used.resume().result(WAIT_S)
    assert held.result(WAIT_S).version == "v1"
    assert used.status().version == "v1"


def test_cancelling_makes_room(start: Start) -> None:
    used = start(max_in_flight=1)
    first = one(used, ask(max_tokens=240))
    first.cancel()
    assert one(used, ask()).result(WAIT_S)


def test_stopping_lets_go_of_what_is_in_flight(start: Start) -> None:
    used = start()
    used.pause(PauseMode.KEEP).result(WAIT_S)
    held = one(used, ask())
    used.stop()
    with pytest.raises(CancelledError):
        held.result(WAIT_S)
    assert not used.healthy
    with pytest.raises(EngineFull, match="stopped"):
        one(used, ask())
