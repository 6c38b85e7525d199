"""Success on held-out tasks: one trajectory each, the same tasks and sampling seeds every time, so that evaluations of
one run can be compared with each other and their outcomes are independent."""

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing

from prover.policies.policy import Sampling
from prover.rpc.clients import RpcError
from prover.training.experiment import Experiment
from prover.training.records import Evaluated
from prover.training.sampling import Rollouts, SamplingFailed, sampled_seed
from prover.trajectory import Trajectory


async def evaluate(
    rollouts: Rollouts, experiment: Experiment, *, step: int, progress: Callable[[int, int], None]
) -> Evaluated:
    """Plays the held-out tasks. Raises SamplingFailed where no trajectory came about."""
    begun = time.monotonic()
    settings, sampling = experiment.rollouts, _sampling(experiment)
    task_ids = [task_id for task_id, _ in experiment.tasks.test_ids()][: experiment.evaluation.tasks]
    places = asyncio.Semaphore(settings.concurrent * settings.group_size)
    finished = 0

    async def play(task_id: str) -> Trajectory | None:
        nonlocal finished
        async with places:
            trajectory = await _play(rollouts, experiment, task_id, sampling)
        finished += 1
        progress(finished, len(task_ids))
        return trajectory

    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(play(task_id)) for task_id in task_ids]
    played = [trajectory for task in running if (trajectory := task.result()) is not None]
    if not played:
        raise SamplingFailed(f"evaluation: none of {len(task_ids)} held-out tasks could be played")
    return Evaluated(
        step=step,
        policy_version=played[0].policy_version,
        successes=sum(trajectory.success for trajectory in played),
        trajectories=len(played),
        failed_attempts=len(task_ids) - len(played),
        seconds=time.monotonic() - begun,
        tokens=sum(len(turn.token_ids or ()) for trajectory in played for turn in trajectory.turns),
    )


def _sampling(experiment: Experiment) -> Sampling:
    rollouts, temperature = experiment.rollouts, experiment.evaluation.temperature
    return Sampling(
        temperature=rollouts.temperature if temperature is None else temperature,
        top_p=rollouts.top_p,
        max_tokens=rollouts.max_tokens,
    )


async def _play(rollouts: Rollouts, experiment: Experiment, task_id: str, sampling: Sampling) -> Trajectory | None:
    settings = experiment.rollouts
    attempts = rollouts.attempt_group(
        experiment.tasks.task(task_id),
        size=1,
        max_turns=settings.max_turns,
        agent=settings.agent,
        sampling=Sampling(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            max_tokens=sampling.max_tokens,
            seed=sampled_seed("evaluation", task_id),
        ),
        timeout_s=settings.timeout_s,
    )
    try:
        async with aclosing(attempts):
            async for attempt in attempts:
                if isinstance(attempt, Trajectory):
                    return attempt
    except RpcError as error:
        if error.invalid:
            raise
    return None
