"""The verifier's processes over a real Redis: what is killed is made good, and every outcome counts once."""

import json
import tempfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from chain_world import OPTIONS, PIVOTAL, mixed_group
from conftest import start_redis
from verifier_processes import JudgeService, Processes, serve_judge, until

from prover.lifecycle import END_STATES, Status
from prover.local.stack import free_port


@pytest.fixture
async def judge() -> JudgeService:
    return JudgeService(PIVOTAL)


@pytest.fixture
async def processes(redis_url: str, tmp_path: Path, judge: JudgeService) -> AsyncIterator[Processes]:
    server = await serve_judge(judge)
    started = Processes(redis_url=redis_url, folder=tmp_path, judge_port=server.port, engine_port=free_port())
    try:
        yield started
    finally:
        started.close()
        await server.stop(0.0)


async def counted_once(processes: Processes, analysis_id: str, samples: int) -> None:
    """Every sample has one outcome and one event, and the verdict is made of them."""
    analysis = await processes.store.get(analysis_id)
    assert analysis is not None
    assert analysis.status is Status.DONE, analysis.error
    assert analysis.verification is not None
    sides = [await processes.store.outcomes(analysis_id, side) for side in ("before", "after")]
    assert [sorted(side) for side in sides] == [list(range(samples))] * 2
    events = [event for event in await processes.store.events(analysis_id) if event.event == "outcome"]
    assert len(events) == 2 * samples
    verdict = analysis.verification
    assert (verdict.before.samples, verdict.after.samples) == (samples, samples)
    assert verdict.before.tokens == sum(outcome.tokens for outcome in sides[0].values())


async def test_coordinator_and_worker_take_an_analysis_to_its_end_and_stop_when_told(processes: Processes) -> None:
    processes.engine()
    processes.verifier("coordinator", "coordinator")
    processes.verifier("worker", "worker")
    await processes.store.create("a1", await mixed_group(), replace(OPTIONS, samples=8))
    processes.send_analyze("nobody")
    processes.send_analyze("a1")
    await processes.store.wait("a1", timeout_s=90)
    await counted_once(processes, "a1", 8)
    assert processes.terminate("worker") == 0
    assert processes.terminate("coordinator") == 0
    assert processes.messages() == 0
    lines = [json.loads(line) for line in processes.log("worker").splitlines() if line.startswith("{")]
    assert sum(line.get("analysis") == "a1" and line["message"] == "continuation ended" for line in lines) == 16


@pytest.mark.slow
async def test_a_worker_killed_in_mid_batch_loses_nothing(processes: Processes) -> None:
    processes.engine(pause_s=0.15)
    processes.verifier("coordinator", "coordinator")
    processes.verifier("worker", "doomed", concurrency=4)
    await processes.store.create("a1", await mixed_group(), replace(OPTIONS, samples=16))
    processes.send_analyze("a1")

    async def some_but_not_all() -> bool:
        return 0 < (await processes.store.count("a1", "before")).samples < 16

    await until(some_but_not_all)
    processes.kill("doomed")
    processes.verifier("worker", "heir")
    await processes.store.wait("a1", timeout_s=90)
    await counted_once(processes, "a1", 16)


@pytest.mark.slow
async def test_a_coordinator_killed_while_the_judge_reads_is_replaced(
    processes: Processes, judge: JudgeService
) -> None:
    judge.pause_s = 2.0
    processes.engine()
    processes.verifier("coordinator", "doomed")
    processes.verifier("worker", "worker")
    await processes.store.create("a1", await mixed_group(), replace(OPTIONS, samples=8))
    processes.send_analyze("a1")

    async def reading() -> bool:
        return judge.asked > 0

    await until(reading)
    processes.kill("doomed")
    judge.pause_s = 0.0
    processes.verifier("coordinator", "heir")
    await processes.store.wait("a1", timeout_s=90)
    await counted_once(processes, "a1", 8)


@pytest.mark.slow
async def test_a_redis_that_is_killed_and_restarted_forgets_nothing(tmp_path: Path, judge: JudgeService) -> None:
    server, port = await serve_judge(judge), free_port()
    with tempfile.TemporaryDirectory(prefix="prover-redis-") as folder:
        redis = start_redis(port, folder)
        processes = Processes(
            redis_url=f"redis://127.0.0.1:{port}/0", folder=tmp_path, judge_port=server.port, engine_port=free_port()
        )
        try:
            processes.engine(pause_s=0.15)
            processes.verifier("coordinator", "coordinator")
            processes.verifier("worker", "worker")
            await processes.store.create("a1", await mixed_group(), replace(OPTIONS, samples=16))
            processes.send_analyze("a1")

            async def begun() -> bool:
                return (await processes.store.count("a1", "before")).samples > 0

            await until(begun)
            redis.kill()
            redis.wait()
            redis = start_redis(port, folder)
            analysis = await processes.store.wait("a1", timeout_s=15)
            if analysis is not None and analysis.status not in END_STATES:
                processes.send_analyze("a1")
                await processes.store.wait("a1", timeout_s=90)
            await counted_once(processes, "a1", 16)
        finally:
            processes.close()
            redis.kill()
            redis.wait()
            await server.stop(0.0)


@pytest.mark.slow
async def test_workers_killed_again_and_again_over_many_analyses_count_every_outcome_once(
    processes: Processes,
) -> None:
    processes.engine(pause_s=0.02)
    processes.verifier("coordinator", "coordinator")
    names = [f"a{number}" for number in range(20)]
    group = await mixed_group()
    for name in names:
        await processes.store.create(name, group, OPTIONS)
        processes.send_analyze(name)
    for generation in range(2):
        processes.verifier("worker", f"worker{generation}")
        start = len(names) - await processes.store.active()

        async def moving(start: int = start) -> bool:
            active = await processes.store.active()
            return len(names) - active >= start + 4 or active == 0

        await until(moving)
        processes.kill(f"worker{generation}")
    processes.verifier("worker", "last")

    async def all_ended() -> bool:
        return await processes.store.active() == 0

    await until(all_ended, timeout_s=90)
    for name in names:
        await counted_once(processes, name, 4)


@pytest.mark.slow
async def test_an_engine_that_stays_away_ends_the_analysis_with_a_reason(processes: Processes) -> None:
    processes.verifier("coordinator", "coordinator")
    processes.verifier("worker", "worker", retries=1)
    await processes.store.create("a1", await mixed_group(), OPTIONS)
    processes.send_analyze("a1")
    analysis = await processes.store.wait("a1", timeout_s=90)
    assert analysis is not None
    assert analysis.status is Status.FAILED
    assert "tried 2 times" in (analysis.error or "")
    assert len(await processes.store.credit("a1")) == 8
