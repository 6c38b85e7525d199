"""Groups of the simulated engine's policy in the chain environment, for benches that need many and no model."""

import random

from bench.simulated_engine import VERSION
from prover.credit.eligibility import eligible
from prover.environments.chain import COMMANDS, ChainEnvironment
from prover.trajectory import Ending, Group, Task, Trajectory, Turn


def mixed_group(task_id: str, *, size: int, seed: int) -> Group:
    """An eligible group, as texts. Its traps are felt at the end, so that every episode takes all the rooms."""
    task = Task(environment="chain", task_id=task_id, seed=seed, options={"traps": "late"})
    draw = random.Random(seed)
    while True:
        members = tuple(_played(task, f"t{index}", draw) for index in range(size))
        if eligible(sum(member.success for member in members), size):
            return Group(task=task, policy_version=VERSION, trajectories=members)


def _played(task: Task, trajectory_id: str, draw: random.Random) -> Trajectory:
    environment = ChainEnvironment()
    observation = environment.reset(task).text
    turns: list[Turn] = []
    while True:
        command, digest = draw.choice(COMMANDS), environment.digest()
        step = environment.step(command)
        turns.append(Turn(observation=observation, text=command, action=command, reward=step.reward, digest=digest))
        observation = step.observation
        if step.done:
            return Trajectory(
                id=trajectory_id,
                task=task,
                policy_version=VERSION,
                turns=tuple(turns),
                reward=step.reward,
                success=step.success,
                ending=Ending.FINISHED,
            )
