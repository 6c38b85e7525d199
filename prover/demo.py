"""The main job from end to end on one machine, for `make demo`.

Starts every service, samples groups of generated ALFWorld games from the embedded policy until one of them has a
verified positive segment, shows what was found, takes one optimizer step on it, and stops everything.
"""

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from prover.client import AsyncProverClient
from prover.credit.eligibility import eligible
from prover.environments.alfworld.generate import TEST_SEEDS
from prover.local import Addresses, LocalStack
from prover.policies.policy import Sampling
from prover.report import print_analysis
from prover.rpc.channels import open_channel
from prover.rpc.clients import LearnerClient, RolloutClient
from prover.trajectory import (
    CreditedTrajectory,
    Group,
    Task,
    Trajectory,
    TrajectoryCredit,
    Turn,
    TurnCredit,
)

GROUP_SIZE = 8
MAX_TURNS = 50
TASK_TYPES = ("pick_and_place_simple", "pick_heat_then_place_in_recep")
# The paper to the letter, named: the demo shows k of K at both boundaries.
OPTIONS: dict[str, Any] = {"judge": "contrast", "mode": "fixed", "samples": 8, "lambda": 1.0, "max_turns": MAX_TURNS}
_SAMPLING_TIMEOUT_S = 300.0
_ANALYSIS_TIMEOUT_S = 300.0
_LEARNING_TIMEOUT_S = 120.0


async def run_demo(*, output: Path, first_seed: int, max_tasks: int, workers: int) -> bool:
    """False where `max_tasks` groups showed no verified positive segment. Raises StackFailed."""
    console = Console()
    began = time.monotonic()
    async with AsyncExitStack() as stack:
        data_dir = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="prover-demo-")))
        local = LocalStack(data_dir=data_dir, port=0, workers=workers)
        with console.status("Starting Redis, the policy engine and the services ..."):
            await local.start()
        stack.push_async_callback(local.stop)
        console.print(f"Services are up after {time.monotonic() - began:.0f} s.")
        rollouts = RolloutClient(await stack.enter_async_context(open_channel(local.addresses.rollout)))
        client = await stack.enter_async_context(AsyncProverClient(local.addresses.gateway))
        for number, task in enumerate(_tasks(first_seed, max_tasks), start=1):
            group = await _sample(console, rollouts, task, number)
            result = await _analyse(console, client, group)
            if result is None:
                continue
            console.print(f"\nGroup {number} of at most {max_tasks} has a verified positive segment.\n")
            print_analysis(console, result, group=group, advantages=result["advantages"])
            _write(output, result)
            console.print(f"Written to {output}. The main job took {time.monotonic() - began:.0f} s.\n")
            await _learn(console, local.addresses, group, result)
            return True
        return False


def _tasks(first_seed: int, most: int) -> Iterator[Task]:
    for number, seed in zip(range(most), count(TEST_SEEDS.start + first_seed), strict=False):
        kind = TASK_TYPES[number % len(TASK_TYPES)]
        yield Task(environment="alfworld", task_id=f"generated/{kind}/{seed}")


async def _sample(console: Console, rollouts: RolloutClient, task: Task, number: int) -> Group:
    trajectories: list[Trajectory] = []
    with _progress(console) as progress:
        bar = progress.add_task(f"Task {number}: sampling {GROUP_SIZE} trajectories", total=GROUP_SIZE)
        sampled = rollouts.sample_group(
            task,
            size=GROUP_SIZE,
            max_turns=MAX_TURNS,
            agent="plain",
            sampling=Sampling(seed=number),
            timeout_s=_SAMPLING_TIMEOUT_S,
        )
        async for trajectory in sampled:
            trajectories.append(trajectory)
            progress.advance(bar)
    successes = sum(trajectory.success for trajectory in trajectories)
    console.print(f"Task {number}: {task.task_id}: {successes} of {len(trajectories)} succeeded")
    ordered = tuple(sorted(trajectories, key=lambda trajectory: trajectory.id))
    return Group(task=task, policy_version=ordered[0].policy_version, trajectories=ordered)


async def _analyse(console: Console, client: AsyncProverClient, group: Group) -> dict[str, Any] | None:
    """The analysis with its advantages, where it verified a positive segment."""
    successes = sum(trajectory.success for trajectory in group.trajectories)
    if not eligible(successes, len(group.trajectories)):
        console.print("  nothing to contrast: the group keeps its plain GRPO advantages")
        return None
    analysis_id = await client.submit(group, OPTIONS)
    with _progress(console) as progress:
        bar = progress.add_task("  judging", total=2 * OPTIONS["samples"])
        async for event in client.events(analysis_id):
            if event.event == "outcome":
                progress.update(bar, description="  verifying", advance=1)
    analysis = await client.get(analysis_id, wait_s=10.0)
    verification = analysis["verification"]
    if verification is None or verification["bonus"] <= 0:
        said = f"delta {verification['delta']:+.3f}" if verification else analysis["error"]
        console.print(f"  {analysis['status']}: {said}: no credit; on to another task")
        return None
    return {**analysis, "advantages": await client.advantages(analysis_id)}


async def _learn(console: Console, addresses: Addresses, group: Group, result: dict[str, Any]) -> None:
    """One optimizer step on the credited group, and what it did to the segment's tokens."""
    proposal = result["proposal"]
    turns = group.trajectory(proposal["trajectory_id"]).turns[proposal["first_turn"] : proposal["last_turn"] + 1]
    async with open_channel(addresses.learner) as channel:
        learner = LearnerClient(channel)
        with console.status("One optimizer step on the credited group ..."):
            before = await learner.score(turns, timeout_s=_LEARNING_TIMEOUT_S)
            metrics = await learner.step(_credited(group, result["advantages"]), timeout_s=_LEARNING_TIMEOUT_S)
            published = await learner.publish(timeout_s=_LEARNING_TIMEOUT_S)
            after = await learner.score(turns, timeout_s=_LEARNING_TIMEOUT_S)
    console.print(
        f"One optimizer step on {metrics.sampled_tokens} sampled tokens took {metrics.seconds:.1f} s "
        f"(gradient norm {metrics.gradient_norm:.3f}); the engine now serves policy {published.version}."
    )
    for number, (turn, was, is_now) in enumerate(zip(turns, before, after, strict=True), proposal["first_turn"]):
        console.print(
            f"  turn {number} {_quoted(turn)}: log-probability {sum(was):.4f} before, {sum(is_now):.4f} after (nats)"
        )


def _credited(group: Group, advantages: dict[str, Any]) -> list[CreditedTrajectory]:
    credits = {entry["trajectory_id"]: entry for entry in advantages["trajectories"]}
    return [
        CreditedTrajectory(trajectory=trajectory, credit=_credit(credits[trajectory.id]))
        for trajectory in group.trajectories
    ]


def _credit(entry: dict[str, Any]) -> TrajectoryCredit:
    turns = tuple(
        TurnCredit(advantage=turn["advantage"], token_advantages=tuple(turn["token_advantages"]))
        for turn in entry["turns"]
    )
    return TrajectoryCredit(trajectory_id=entry["trajectory_id"], group_advantage=entry["group_advantage"], turns=turns)


def _quoted(turn: Turn) -> str:
    return f"'{turn.text.strip()}'"


def _write(output: Path, result: dict[str, Any]) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=2) + "\n")


def _progress(console: Console) -> Progress:
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=console, transient=True)
