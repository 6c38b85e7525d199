"""`prover bench alfworld_verification`: what the engine does to the main job.

One group is verified on the stock engine and on ours, through the whole system on this machine, one after the other.
The two play the same game with the same wording; only the digests are left out, since each engine has its own.
Continuations are sampled, so episodes differ in length.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from bench.record import write_record
from prover.client import AsyncProverClient
from prover.credit.eligibility import eligible
from prover.environments.alfworld.generate import TEST_SEEDS
from prover.local import LocalStack
from prover.policies.policy import Sampling
from prover.rpc.channels import open_channel
from prover.rpc.clients import RolloutClient
from prover.trajectory import Group, Task

_TIMEOUT_S = 900.0


def main(argv: Sequence[str] | None = None) -> int:
    """Writes bench/results/alfworld_verification.json and prints the headline."""
    parser = argparse.ArgumentParser(prog="prover bench alfworld_verification", description=__doc__)
    parser.add_argument("--samples", type=int, default=8, help="continuations of each boundary (default: 8)")
    parser.add_argument("--first-seed", type=int, default=0, help="first held-out game to try")
    options = parser.parse_args(argv)
    rows = asyncio.run(_measure(samples=options.samples, first_seed=options.first_seed))
    stock, ours = rows
    headline = {
        "stock_seconds": stock["seconds"],
        "seconds": ours["seconds"],
        "ratio": round(stock["seconds"] / ours["seconds"], 2),
    }
    write_record("alfworld_verification", settings=vars(options), headline=headline, rows=rows)
    Console().print(json.dumps(headline, indent=1))
    return 0


async def _measure(*, samples: int, first_seed: int) -> list[dict[str, float]]:
    with tempfile.TemporaryDirectory(prefix="prover-bench-") as folder:
        stack = LocalStack(data_dir=Path(folder), port=0)
        await stack.start(timeout_s=300.0)
        try:
            group = await _group(stack, first_seed)
            async with AsyncProverClient(stack.addresses.gateway) as client:
                return [await _verify(client, group, name, samples) for name in ("alfworld-stock", "alfworld")]
        finally:
            await stack.stop()


async def _group(stack: LocalStack, first_seed: int) -> Group:
    """The first mixed group of held-out games."""
    async with open_channel(stack.addresses.rollout) as channel:
        rollouts = RolloutClient(channel)
        for seed in range(TEST_SEEDS.start + first_seed, TEST_SEEDS.stop):
            task = Task(environment="alfworld", task_id=f"generated/pick_and_place_simple/{seed}")
            sampled = rollouts.sample_group(
                task, size=8, max_turns=50, agent="plain", sampling=Sampling(seed=seed), timeout_s=_TIMEOUT_S
            )
            members = [member async for member in sampled]
            if eligible(sum(member.success for member in members), len(members)):
                return Group(task=task, policy_version=members[0].policy_version, trajectories=tuple(members))
    raise RuntimeError("no mixed group among the held-out games")


async def _verify(client: AsyncProverClient, group: Group, environment: str, samples: int) -> dict[str, float]:
    began = time.monotonic()
    analysis_id = await client.submit(_played_on(group, environment), {"mode": "fixed", "samples": samples})
    analysis = await client.wait(analysis_id, timeout_s=_TIMEOUT_S)
    seconds = time.monotonic() - began
    if analysis["status"] != "done":
        raise RuntimeError(f"{environment}: ended as {analysis['status']}: {analysis['error']}")
    return {"seconds": round(seconds, 2), "seconds_a_continuation": round(seconds / (2 * samples), 3)}


def _played_on(group: Group, environment: str) -> Group:
    """The same group as if another engine had recorded it."""
    task = replace(group.task, environment=environment)
    members = tuple(
        replace(member, task=task, turns=tuple(replace(turn, digest=None) for turn in member.turns))
        for member in group.trajectories
    )
    return Group(task=task, policy_version=group.policy_version, trajectories=members)
