"""More workers with more work: what each number of them does in the same time, by the system's and the engine's count.

The load is closed: so many analyses a worker are under way at all times, each taking the place of one that has ended.
"""

import asyncio
import itertools
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from bench.chain_groups import mixed_group
from bench.figures import samples_of
from bench.parts import Parts, until_answers
from prover.client import AsyncProverClient
from prover.local.stack import free_port
from prover.trajectory import Group

TASK = "12/4,8"
"""Twelve rooms: a continuation takes up to twelve turns. By the doors that matter a policy that draws its doors has
V = 0.25 at first and 0.5 after the right one."""

_POLICY = "simulated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Attributes:
    median_s: of a turn of the engine.
    places: requests that a worker may have at the engine at a time.
    tasks: tasks that a worker works on at a time.
    analyses: under way at a time, for each worker.
    mode: of the analyses.
    """

    median_s: float
    places: int
    tasks: int
    analyses: int
    mode: str

    def worker_settings(self) -> dict[str, int]:
        """As environment variables."""
        return {"PROVER_VERIFIER_CONCURRENCY": self.tasks, "PROVER_VERIFIER_MAX_IN_FLIGHT": self.places}

    def options(self) -> dict[str, str]:
        """Of an analysis."""
        return {"mode": self.mode, "policy": _POLICY}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """Counts at a moment, since the beginning. `asked_s`: engine time that was asked for; `late_s`: beyond that."""

    at_s: float
    continuations: float
    turns: float
    asked_s: float
    late_s: float
    processor_s: Mapping[str, float]


def policy_urls(engine_port: int) -> str:
    """PROVER_POLICY_URLS of a bench whose engine listens there."""
    return f"{_POLICY}=http://127.0.0.1:{engine_port}"


async def start_engine(parts: Parts, port: int, *, median_s: float) -> None:
    """Ready on return."""
    await parts.module("engine", "bench.simulated_engine", str(port), "--median-s", str(median_s))
    await until_answers(f"http://127.0.0.1:{port}/v1/models")


async def with_workers(workers: int, load: Load, *, warm_up_s: float, window_s: float) -> dict[str, float]:
    """Starts a system, loads it, and answers what it does in the window."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="prover-bench-") as folder:
        async with Parts(Path(folder), policy_urls=policy_urls(port)) as parts:
            await start_engine(parts, port, median_s=load.median_s)
            metrics = await parts.system(workers=workers, **load.worker_settings())
            ended: list[float] = []
            groups = (mixed_group(TASK, size=8, seed=seed) for seed in itertools.count())
            asking = [asyncio.create_task(_keep_asking(parts.gateway_url, groups, load, ended)) for _ in range(workers)]
            looks: list[_Look] = []
            for pause_s in (warm_up_s, window_s):
                done, _ = await asyncio.wait(asking, timeout=pause_s, return_when=asyncio.FIRST_EXCEPTION)
                for broken in done:
                    broken.result()
                looks.append(await _look(parts, port, list(metrics.values())))
            for one in asking:
                one.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
            return _row(workers, load, looks[0], looks[1], ended)


async def _keep_asking(gateway: str, groups: Iterator[Group], load: Load, ended: list[float]) -> None:
    """One worker's share of the load, until it is cancelled. RuntimeError where an analysis does not end as done."""
    clock = asyncio.get_running_loop().time

    async def one_after_the_other(client: AsyncProverClient) -> None:
        for group in groups:
            analysis = await client.wait(await client.submit(group, load.options()))
            if analysis["status"] != "done":
                raise RuntimeError(f"analysis {analysis['id']}: {analysis['status']}: {analysis['error']}")
            ended.append(clock())

    async with AsyncProverClient(gateway) as client, asyncio.TaskGroup() as asking:
        for _ in range(load.analyses):
            asking.create_task(one_after_the_other(client))


async def _look(parts: Parts, engine_port: int, metrics: Sequence[str]) -> _Look:
    async with httpx.AsyncClient(trust_env=False) as http:
        counted = (await http.get(f"http://127.0.0.1:{engine_port}/counted")).json()
        pages = await asyncio.gather(*(http.get(url) for url in metrics))
    return _Look(
        at_s=asyncio.get_running_loop().time(),
        continuations=sum(_continuations(page.text) for page in pages),
        processor_s=parts.processor_s(),
        **counted,
    )


def _continuations(metrics: str) -> float:
    """That count: those that were played twice do not."""
    return sum(
        sample.value
        for sample in samples_of(metrics)
        if sample.name == "prover_verifier_continuations_total" and sample.labels["outcome"] in ("success", "failure")
    )


def _row(workers: int, load: Load, first: _Look, last: _Look, ended: Sequence[float]) -> dict[str, float]:
    seconds = last.at_s - first.at_s
    turns = last.turns - first.turns
    shares = {name: (last.processor_s[name] - used) / seconds for name, used in first.processor_s.items()}
    of_workers = [share for name, share in shares.items() if name.startswith("worker-")]
    others = {f"{name}_cpu_share": round(share, 3) for name, share in shares.items() if not name.startswith("worker-")}
    return {
        "workers": workers,
        "window_s": round(seconds, 2),
        "continuations": last.continuations - first.continuations,
        "continuations_per_s": round((last.continuations - first.continuations) / seconds, 3),
        "turns_per_s": round(turns / seconds, 3),
        "analyses_per_s": round(sum(first.at_s < at <= last.at_s for at in ended) / seconds, 3),
        "places_used_share": round((last.asked_s - first.asked_s) / (seconds * workers * load.places), 4),
        "engine_late_ms": round(1000 * (last.late_s - first.late_s) / turns, 2),
        "workers_cpu_share": round(sum(of_workers), 3),
        "busiest_worker_cpu_share": round(max(of_workers), 3),
        **others,
        "cpu_share": round(sum(shares.values()), 3),
    }
