"""Prints groups of generated games, a line of JSON each, ready to be posted: one solved run and three that gave up.

Runs wherever `prover` is installed, such as in the gateway's container:
python - FIRST_SEED SAMPLES [GROUPS] < deploy/test/make_group.py

examples/group.json is made by:
python deploy/test/make_group.py 1 4 | python -m json.tool --indent 1 > examples/group.json
"""

import json
import sys

from prover.environments import make
from prover.environments.alfworld.expert import explore
from prover.trajectory import Task


def _turns(task: Task, commands: tuple[str, ...]) -> list[dict[str, object]]:
    environment = make(task.environment)
    observation = environment.reset(task).text
    turns: list[dict[str, object]] = []
    for command in commands:
        step = environment.step(command)
        turns.append(
            {
                "observation": observation,
                "text": f"{command}\n",
                "action": command,
                "valid": step.valid,
                "reward": step.reward,
            }
        )
        observation = step.observation
    return turns


def group(seed: int, samples: int) -> dict[str, object]:
    """A submission for the game generated/pick_and_place_simple/SEED."""
    task = Task(environment="alfworld", task_id=f"generated/pick_and_place_simple/{seed}")
    solved = explore(make("alfworld"), task, seed=seed)
    if not solved.success:
        raise ValueError(f"seed: was {seed}; expected a game that the searcher solves")
    lengths = [len(solved.commands), *(max(1, len(solved.commands) * part // 4) for part in (1, 2, 3))]
    trajectories = [
        {
            "id": f"t{number}",
            "reward": float(number == 0),
            "success": number == 0,
            "turns": _turns(task, solved.commands[:length]),
        }
        for number, length in enumerate(lengths)
    ]
    options = {"judge": "contrast", "mode": "fixed", "samples": samples, "max_turns": 30}
    return {
        "group": {
            "task": {"environment": "alfworld", "task_id": task.task_id, "seed": 0, "options": {}},
            "policy_version": None,
            "trajectories": trajectories,
        },
        "options": options,
    }


if __name__ == "__main__":
    first, samples, groups = map(int, [*sys.argv[1:], "1"][:3])
    for seed in range(first, first + groups):
        sys.stdout.write(json.dumps(group(seed, samples)) + "\n")
