"""The smallest groups that a judge can be asked about."""

from collections.abc import Sequence

from prover.trajectory import Ending, Group, Task, Trajectory, Turn

TASK = Task(environment="toy", task_id="toy/1")
THOUGHT = None
REJECTED = "!"
"""An action that begins with it was rejected by the environment."""


def trajectory(name: str, actions: Sequence[str | None], *, success: bool = False, **fields: object) -> Trajectory:
    """A run whose observation after an action is the action in the past, so that equal actions are equal steps."""
    observation, turns = "You stand in a room. Your task is: ring the golden bell.", list[Turn]()
    for action in actions:
        rejected = action is not None and action.startswith(REJECTED)
        turns.append(Turn(observation=observation, text=action or "hm", action=action, valid=not rejected))
        observation = "Nothing happens." if rejected else f"You did: {action}."
    return Trajectory(
        id=name,
        task=TASK,
        policy_version="v0",
        turns=tuple(turns),
        reward=float(success),
        success=success,
        ending=Ending.FINISHED if success else Ending.STEP_LIMIT,
    )


def group(*trajectories: Trajectory) -> Group:
    return Group(task=TASK, policy_version="v0", trajectories=trajectories)


def bell() -> Group:
    """One success: it opens the chest, takes the bell and rings it. The failures never open the chest."""
    won = ["go hall", "go chest 1", "open chest 1", "take golden bell 1 from chest 1", "go tower", "ring golden bell 1"]
    return group(
        trajectory("t0", ["go hall", "go chest 1", "go hall", "go garden"]),
        trajectory("t1", won, success=True),
        trajectory("t2", ["go garden", "go hall", "go chest 1", "go tower"]),
        trajectory("t3", ["go hall", "go tower", "go chest 1", "go hall"]),
    )
