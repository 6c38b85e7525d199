"""The small parts of the verifier."""

import asyncio

import pytest
from pydantic import ValidationError

from prover.telemetry import about, analysis
from services.verifier.config import VerifierSettings
from services.verifier.continuations import Batch
from services.verifier.loop import LoopThread
from services.verifier.verifier import batches
from services.verifier.versions import Stale, check_version


@pytest.mark.parametrize(
    ("group", "engine", "allowed_lag"),
    [("v3", "v3", 0), ("v3", "v5", 2), ("step-100", "step-100", 0)],
)
def test_the_groups_version_and_allowed_ones_are_accepted(group: str, engine: str, allowed_lag: int) -> None:
    check_version(group, engine, allowed_lag=allowed_lag)


@pytest.mark.parametrize(
    ("group", "engine", "allowed_lag"),
    [("v3", "v4", 0), ("v3", "v6", 2), ("v3", "v2", 5), ("step-100", "step-200", 1000), ("v3", "model", 9)],
)
def test_any_other_version_is_stale_and_both_are_named(group: str, engine: str, allowed_lag: int) -> None:
    with pytest.raises(Stale, match=f"{group!r}.*{engine!r}"):
        check_version(group, engine, allowed_lag=allowed_lag)


def test_samples_are_sent_in_runs_that_are_no_longer_than_a_batch() -> None:
    assert list(batches([0, 1, 2, 3, 4, 7, 9, 10], 3)) == [(0, 3), (3, 2), (7, 1), (9, 2)]
    assert list(batches([], 3)) == []


@pytest.mark.parametrize(("side", "first", "samples"), [("middle", 0, 1), ("before", -1, 1), ("after", 0, 0)])
def test_a_batch_that_cannot_be_is_refused(side: str, first: int, samples: int) -> None:
    with pytest.raises(ValueError, match="expected side before or after"):
        Batch(analysis_id="a1", number=1, side=side, first_sample=first, samples=samples)


def test_messages_are_not_given_away_while_their_task_may_still_run() -> None:
    with pytest.raises(ValidationError, match="expected more than the longest task"):
        VerifierSettings(blob_url="file:///x", task_limit_s=100.0, judge_timeout_s=10.0, visibility_timeout_s=100)


def test_what_a_task_logs_on_the_loop_names_its_analysis() -> None:
    loop = LoopThread()

    async def named() -> str | None:
        return analysis()

    with about("a1"):
        assert loop.run(named()) == "a1"
    assert loop.run(named()) is None
    loop.stop()


def test_coroutines_of_any_thread_run_on_the_one_loop() -> None:
    loop = LoopThread()

    async def where() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    async def fails() -> None:
        raise ValueError("as it was")

    assert loop.run(where()) is loop.run(where())
    with pytest.raises(ValueError, match="as it was"):
        loop.run(fails())
    loop.stop()
