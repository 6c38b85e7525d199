"""An engine that dies under its workers: their continuations wait, and go on where they stood."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from chain_world import OPTIONS, PIVOTAL, mixed_group
from verifier_processes import JudgeService, Processes, serve_judge, until

from prover.lifecycle import Status
from prover.local.stack import free_port


@pytest.mark.slow
async def test_continuations_outlast_an_engine_that_is_killed_and_comes_back(redis_url: str, tmp_path: Path) -> None:
    server = await serve_judge(JudgeService(PIVOTAL))
    processes = Processes(redis_url=redis_url, folder=tmp_path, judge_port=server.port, engine_port=free_port())
    store = processes.store

    async def some_have_ended() -> bool:
        return 0 < (await store.count("a1", "before")).samples < 16

    try:
        processes.engine(pause_s=0.2)
        processes.verifier("coordinator", "coordinator")
        limits = {"task_limit_s": 60, "visibility_timeout_s": 120, "engine_patience_s": 30}
        processes.verifier("worker", "worker", retries=0, **limits)
        await store.create("a1", await mixed_group(), replace(OPTIONS, samples=16))
        processes.send_analyze("a1")
        await until(some_have_ended)
        processes.kill("engine")
        # Longer than a client without patience goes on asking.
        await asyncio.sleep(6)
        processes.engine()
        analysis = await store.wait("a1", timeout_s=60)
        assert analysis is not None
        # A task that fails once is not tried again here: it would have failed the analysis.
        assert analysis.status is Status.DONE, analysis.error
        assert analysis.verification is not None
        assert (analysis.verification.before.samples, analysis.verification.after.samples) == (16, 16)
        assert "task failed" not in processes.log("worker")
    finally:
        processes.close()
        await server.stop(0.0)
