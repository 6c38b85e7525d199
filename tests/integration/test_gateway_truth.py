"""What comes out of REST for chains whose values are known, held against them: the intervals at their stated rate.

Policies that are right half of the time and at 0.8 of it, chains of two to four rooms, and two judges, one that
compares outcomes and one that draws at random: that makes pairs of values from (0.125, 0.25) to (0.8, 1.0), among them
segments that are worth nothing. `pytest -s` shows the rates, which docs/verification.md quotes.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import comb
from pathlib import Path

import pytest
from chain_world import OPTIONS, TASK, ChainPolicy, played
from rest_system import System

from prover.client import AsyncProverClient
from prover.client.documents import Verification
from prover.credit.intervals import newcombe_interval
from prover.environments.chain import value
from prover.local.stack import free_port
from prover.trajectory import Group, Task

SAMPLES = 8
REPEATS = {"fixed": 8, "adaptive": 5}
LEVEL = 0.9
RIGHT = {"chain": 0.5, "able": 0.8}
"""Engines, and how often each opens the right door."""
CHAINS = ("2/0", "3/0,1", "3/0,2", "4/1,2,3", "4/0,3")
JUDGES = ("contrast", "random")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One analysis: the exact values at the boundaries that the judge chose, and the verdict."""

    values: tuple[float, float]
    verdict: Verification

    @property
    def truth(self) -> float:
        return self.values[1] - self.values[0]

    @property
    def held(self) -> bool:
        low, high = self.verdict["interval"]
        return low - 1e-9 <= self.truth <= high + 1e-9


@pytest.fixture
async def client(redis_url: str, tmp_path: Path) -> AsyncIterator[AsyncProverClient]:
    system = System(redis_url=redis_url, folder=tmp_path, judge_port=free_port(), engine_port=free_port())
    try:
        system.judge()
        for name, chance in RIGHT.items():
            await asyncio.to_thread(system.engine, name=name, chance=chance)
        system.verifier("coordinator", "coordinator")
        system.verifier("worker", "worker", batch_samples=SAMPLES)
        system.gateway()
        await system.ready()
        async with AsyncProverClient(system.url, retries=10) as opened:
            yield opened
    finally:
        system.close()


async def group_of(task: Task, number: int) -> Group:
    """Two successes of eight. Their names differ by `number`, so that a judge that draws draws anew."""
    won = [await played(ChainPolicy(chance=1.0), f"won{number}-{index}", task=task) for index in range(2)]
    lost = [await played(ChainPolicy(chance=0.0), f"lost{index}", task=task) for index in range(6)]
    return Group(task=task, policy_version="v0", trajectories=(*won, *lost))


async def verified(client: AsyncProverClient, mode: str) -> list[Found]:
    """All of them at once, and what came out."""
    asked: list[tuple[str, Task, float]] = []
    for number, chain, engine, judge in product(range(REPEATS[mode]), CHAINS, RIGHT, JUDGES):
        task = replace(TASK, task_id=chain)
        options = replace(OPTIONS, mode=mode, samples=SAMPLES, policy=engine, judge=judge)
        asked.append((await client.submit(await group_of(task, number), options), task, RIGHT[engine]))
    return [await found(client, *one) for one in asked]


async def found(client: AsyncProverClient, analysis_id: str, task: Task, right: float) -> Found:
    analysis = await client.wait(analysis_id, timeout_s=150)
    assert analysis["status"] == "done", analysis["error"]
    proposal, verdict = analysis["proposal"], analysis["verification"]
    assert proposal is not None
    assert verdict is not None
    before, after = (value(task, room, lambda _: right) for room in (proposal["first_turn"], proposal["last_turn"] + 1))
    return Found(values=(round(before, 9), round(after, 9)), verdict=verdict)


def newcombe_rate(before: float, after: float) -> float:
    """How often Newcombe's interval holds the difference of two known rates: all outcomes, weighed."""

    def chance(successes: int, rate: float) -> float:
        return comb(SAMPLES, successes) * rate**successes * (1 - rate) ** (SAMPLES - successes)

    total = 0.0
    for x, y in product(range(SAMPLES + 1), repeat=2):
        low, high = newcombe_interval((x, SAMPLES), (y, SAMPLES))
        total += chance(x, before) * chance(y, after) * (low - 1e-9 <= after - before <= high + 1e-9)
    return total


def by_values(all_found: Sequence[Found]) -> Mapping[tuple[float, float], list[Found]]:
    sorted_out: dict[tuple[float, float], list[Found]] = defaultdict(list)
    for one in all_found:
        sorted_out[one.values].append(one)
    return sorted_out


def check_rate(all_found: Sequence[Found], mode: str) -> None:
    """No less than stated, within three standard errors of a binomial count."""
    held, number = sum(one.held for one in all_found), len(all_found)
    print(f"{mode}: {held} of {number} intervals ({held / number:.1%}) hold the exact advantage")  # noqa: T201
    assert held >= LEVEL * number - 3 * (number * LEVEL * (1 - LEVEL)) ** 0.5


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_stated_intervals_hold_exact_advantages_at_their_stated_rate(client: AsyncProverClient) -> None:
    raw = await verified(client, "fixed")
    check_rate(raw, "fixed")
    groups = by_values(raw)
    assert len(groups) >= 8
    assert any(before == after for before, after in groups)
    for (before, after), some in groups.items():
        number, exact = len(some), newcombe_rate(before, after)
        held = sum(one.held for one in some)
        print(f"  {before:.3f} -> {after:.3f}: {held} of {number}, expected {exact:.1%}")  # noqa: T201
        assert abs(held - number * exact) <= 1 + 4 * (number * exact * (1 - exact)) ** 0.5
        error = ((before * (1 - before) + after * (1 - after)) / SAMPLES / number) ** 0.5
        assert abs(sum(one.verdict["delta"] for one in some) / number - (after - before)) <= 1e-9 + 4 * error
    check_rate(await verified(client, "adaptive"), "adaptive")
