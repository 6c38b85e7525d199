"""A burst of analyses, all under way at once, and whether one coordinator is enough for it.

In three parts, so that each shows what it is limited by. The analyses are handed in while no coordinator is up; then
the coordinators take them in, as fast as they can, while no worker is up; then the workers play. Times are those of the
analyses' own events, by Redis' clock.
"""

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from bench.chain_groups import mixed_group
from bench.figures import percentile, samples_of
from bench.parts import Parts
from bench.scaling_workers import Load, policy_urls, start_engine
from prover.client import AsyncProverClient
from prover.local.stack import free_port

TASK = "4/1,2"
"""Four rooms: short continuations, and so many decisions for a turn played."""

_AT_ONCE = 32
_LOOK_EVERY_S = 1.0
_LIMIT_S = 1800.0
"""A burst that has not ended by then has lost an analysis."""

_DEPTHS = {("prover_gateway_active_analyses", ""): "under_way"} | {
    ("prover_gateway_waiting_messages", queue): f"waiting_{queue}" for queue in ("analyze", "continue")
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """One analysis, in seconds since 1970: its states, and the last outcome before its end."""

    taken: float
    verifying: float
    last_outcome: float
    done: float
    continuations: int


async def with_coordinators(coordinators: int, load: Load, *, workers: int, analyses: int) -> dict[str, float]:
    """Starts a system, gives it the burst, and answers how it went. RuntimeError where one does not end as done,
    TimeoutError where one does not end."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="prover-bench-") as folder:
        async with Parts(Path(folder), policy_urls=policy_urls(port)) as parts:
            await start_engine(parts, port, median_s=load.median_s)
            await parts.system(workers=0, coordinators=0)
            async with AsyncProverClient(parts.gateway_url) as client:
                clock = asyncio.get_running_loop().time
                began = clock()
                ids = await _submit(client, load, analyses)
                submitted_s = clock() - began
                depths: list[Mapping[str, float]] = []
                looking = asyncio.create_task(_look_again(parts.gateway_url, depths))
                await parts.verifiers("coordinator", coordinators, **load.worker_settings())
                await _until_verifying(parts.gateway_url, analyses)
                taken_in = parts.processor_s()
                await parts.verifiers("worker", workers, **load.worker_settings())
                started = parts.processor_s()
                drain_began = clock()
                for analysis_id in ids:
                    await client.wait(analysis_id, timeout_s=_LIMIT_S)
                drained_s = clock() - drain_began
                used = parts.processor_s()
                looking.cancel()
                courses = [await _course(client, analysis_id) for analysis_id in ids]
    cpu = {name: used[name] - started.get(name, 0.0) for name in used}
    return {
        "coordinators": coordinators,
        "workers": workers,
        "analyses": analyses,
        "submitted_per_s": round(analyses / submitted_s, 2),
        **intake_of(courses, processor_s=_of(taken_in, "coordinator-")),
        **drain_of(courses, processor_s=_of(cpu, "coordinator-")),
        **{f"most_{name}": max(look[name] for look in depths) for name in _DEPTHS.values()},
        **{f"{name}_cpu_share": round(spent / drained_s, 3) for name, spent in cpu.items() if "worker-" not in name},
        "workers_cpu_share": round(_of(cpu, "worker-") / drained_s, 3),
        "cpu_share": round(sum(cpu.values()) / drained_s, 3),
    }


def intake_of(courses: Sequence[Course], *, processor_s: float) -> dict[str, float]:
    """How fast analyses were taken in. `processor_s`: what the coordinators have used for it, their start included."""
    seconds = max(one.verifying for one in courses) - min(one.taken for one in courses)
    return {
        "intake_per_s": round(len(courses) / seconds, 2),
        "intake_cpu_ms_per_analysis": round(1000 * processor_s / len(courses), 2),
    }


def drain_of(courses: Sequence[Course], *, processor_s: float) -> dict[str, float]:
    """How fast they ended. The rate is that between the tenth and the ninetieth part of the ends: neither the start of
    the workers nor the last continuations are in it. A decision's age is from the last outcome to the end."""
    ends = sorted(one.done for one in courses)
    first, last = len(ends) // 10, len(ends) * 9 // 10
    ages_ms = [1000 * (one.done - one.last_outcome) for one in courses]
    return {
        "ended_per_s": round((last - first) / (ends[last] - ends[first]), 2),
        "continuations": sum(one.continuations for one in courses),
        "decision_age_p50_ms": round(percentile(ages_ms, 0.5), 1),
        "decision_age_p95_ms": round(percentile(ages_ms, 0.95), 1),
        "decision_age_max_ms": round(max(ages_ms), 1),
        "decision_cpu_ms_per_analysis": round(1000 * processor_s / len(courses), 2),
    }


async def _submit(client: AsyncProverClient, load: Load, analyses: int) -> list[str]:
    places = asyncio.Semaphore(_AT_ONCE)

    async def one(seed: int) -> str:
        async with places:
            return await client.submit(mixed_group(TASK, size=8, seed=seed), load.options())

    return await asyncio.gather(*(one(seed) for seed in range(analyses)))


async def _until_verifying(gateway: str, analyses: int) -> None:
    """Returns once the coordinators have sent all they could: their queue is empty, and the workers' is full."""
    while True:
        depths = await _depths(gateway)
        if depths["waiting_analyze"] == 0 and depths["waiting_continue"] >= 2 * analyses:
            return
        await asyncio.sleep(_LOOK_EVERY_S / 2)


async def _look_again(gateway: str, found: list[Mapping[str, float]]) -> None:
    while True:
        found.append(await _depths(gateway))
        await asyncio.sleep(_LOOK_EVERY_S)


async def _depths(gateway: str) -> dict[str, float]:
    async with httpx.AsyncClient(trust_env=False, timeout=30.0) as http:
        page = (await http.get(f"{gateway}/metrics")).text
    keys = [((sample.name, sample.labels.get("queue", "")), sample.value) for sample in samples_of(page)]
    return {_DEPTHS[key]: value for key, value in keys if key in _DEPTHS}


async def _course(client: AsyncProverClient, analysis_id: str) -> Course:
    states: dict[str, float] = {}
    outcomes: list[float] = []
    async for event in client.events(analysis_id):
        at = int(event.id.partition("-")[0]) / 1000
        if event.event == "outcome":
            outcomes.append(at)
        else:
            states[str(event.data["status"])] = at
    if "done" not in states:
        raise RuntimeError(f"analysis {analysis_id}: was {', '.join(states)}; expected it to end as done")
    return Course(
        taken=states["proposing"],
        verifying=states["verifying"],
        last_outcome=outcomes[-1],
        done=states["done"],
        continuations=len(outcomes),
    )


def _of(processor_s: Mapping[str, float], prefix: str) -> float:
    return sum(spent for name, spent in processor_s.items() if name.startswith(prefix))
