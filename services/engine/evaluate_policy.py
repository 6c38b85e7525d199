"""Measures the policy that an engine serves: `python -m services.engine.evaluate_policy --url http://127.0.0.1:8100`.

Plays groups of trajectories on generated games that training has not seen (TEST_SEEDS), through HTTP and the episode
loop that everybody else uses. The last line is JSON.
"""

import asyncio
import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from prover import environments
from prover.agents import Plain
from prover.environments.alfworld.generate import TASK_TYPES, TEST_SEEDS
from prover.episodes import Played, play, start, stop_tokens
from prover.policies import Policy, PolicyClient, Sampling
from prover.trajectory import Task

_ELIGIBLE = range(1, 4)
"""Successes in a group of 8 that make it eligible for verification."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Groups of trajectories on the tasks of one type. `seconds` is the wall clock of all of them together."""

    task_type: str
    groups: Sequence[Sequence[Played]]
    seconds: float

    def report(self) -> dict[str, object]:
        """The figures, rates with 95% intervals of the mean over tasks (trajectories of one task are alike)."""
        rates = [sum(played.success for played in group) / len(group) for group in self.groups]
        mean = sum(rates) / len(rates)
        spread = math.sqrt(sum((rate - mean) ** 2 for rate in rates) / max(1, len(rates) - 1) / len(rates))
        every = [played for group in self.groups for played in group]
        successes = [sum(played.success for played in group) for group in self.groups]
        turns = sum(len(played.turns) for played in every)
        return {
            "type": self.task_type,
            "tasks": len(rates),
            "success": round(mean, 3),
            "interval": [round(mean - 1.96 * spread, 3), round(mean + 1.96 * spread, 3)],
            "mixed_groups": round(sum(0 < count < len(self.groups[0]) for count in successes) / len(rates), 3),
            "groups_with_1_to_3": round(sum(count in _ELIGIBLE for count in successes) / len(rates), 3),
            "turns": round(turns / len(every), 1),
            "valid_actions": round(sum(turn.valid for played in every for turn in played.turns) / turns, 3),
            "endings": {
                ending: sum(played.ending == ending for played in every)
                for ending in sorted({played.ending for played in every})
            },
            "sampled_tokens": sum(played.sampled_tokens for played in every),
            "seconds": round(self.seconds, 1),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is played: `tasks` of each type, `group` trajectories of each task, `at_once` groups at a time."""

    types: Sequence[str]
    tasks: int
    group: int
    at_once: int
    max_turns: int
    temperature: float


def main(
    url: Annotated[str, typer.Option(help="address of the engine")] = "http://127.0.0.1:8100",
    types: Annotated[str, typer.Option(help="task types, with commas")] = ",".join(TASK_TYPES),
    tasks: Annotated[int, typer.Option(help="tasks of each type")] = 32,
    at_once: Annotated[int, typer.Option(help="groups of 8 that are played at once")] = 4,
    max_turns: Annotated[int, typer.Option(help="turns of an episode")] = 50,
    temperature: Annotated[float, typer.Option(help="of sampling")] = 1.0,
) -> None:
    """Prints one line of JSON for each task type."""
    plan = Plan(
        types=types.split(","), tasks=tasks, group=8, at_once=at_once, max_turns=max_turns, temperature=temperature
    )
    asyncio.run(_evaluate(url, plan))


async def _evaluate(url: str, plan: Plan) -> None:
    policy = PolicyClient(url, max_in_flight=plan.at_once * plan.group)
    try:
        for task_type in plan.types:
            trial = await _trial(policy, task_type, plan)
            sys.stdout.write(json.dumps(trial.report()) + "\n")
            sys.stdout.flush()
    finally:
        await policy.aclose()


async def _trial(policy: Policy, task_type: str, plan: Plan) -> Trial:
    places = asyncio.Semaphore(plan.at_once)
    began = time.perf_counter()

    async def one(seed: int) -> list[Played]:
        task = Task(environment="alfworld", task_id=f"generated/{task_type}/{seed}")
        async with places:
            return list(await asyncio.gather(*(_episode(policy, task, plan) for _ in range(plan.group))))

    groups = await asyncio.gather(*(one(seed) for seed in TEST_SEEDS[: plan.tasks]))
    return Trial(task_type=task_type, groups=groups, seconds=time.perf_counter() - began)


async def _episode(policy: Policy, task: Task, plan: Plan) -> Played:
    agent, environment = Plain(), environments.make(task.environment)
    begin = await start(environment, task, agent=agent, policy=policy)
    sampling = Sampling(temperature=plan.temperature, stop_token_ids=await stop_tokens(agent, policy))
    return await play(environment, begin, agent=agent, policy=policy, sampling=sampling, max_turns=plan.max_turns)


if __name__ == "__main__":
    typer.run(main)
