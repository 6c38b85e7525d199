"""Restore by replay, for any deterministic environment that cannot hand out its state.

A snapshot is the task and the actions that led to the state; restoring plays them again. It takes as long as the
episode took, so it is the second choice; but it needs nothing from the environment except that it keeps its promises.
"""

import json
from collections.abc import Sequence
from typing import cast

from prover.environments.environment import Environment, Observation, Step
from prover.trajectory import Task


class Replayed:
    """An environment with `snapshot` and `restore`, made of one without.

    Snapshots are small and may be restored in any process that can make the same environment.
    """

    deterministic = True
    can_snapshot = True

    def __init__(self, environment: Environment) -> None:
        """ValueError where the environment is not deterministic: replay would lead somewhere else."""
        if not environment.deterministic:
            raise ValueError(f"{type(environment).__name__}.deterministic: was False; replay needs it to be True")
        self._environment = environment
        self._task: Task | None = None
        self._actions: list[str] = []

    def reset(self, task: Task) -> Observation:
        """Starts the task."""
        self._task = None
        observation = self._environment.reset(task)
        self._task, self._actions = task, []
        return observation

    def step(self, action: str) -> Step:
        """Takes one action, and remembers it."""
        step = self._environment.step(action)
        self._actions.append(action)
        return step

    def admissible(self) -> list[str] | None:
        """What the environment says."""
        return self._environment.admissible()

    def digest(self) -> str:
        """What the environment says."""
        return self._environment.digest()

    def snapshot(self) -> bytes:
        """The task, the actions so far and the digest of where they led, as JSON. RuntimeError before `reset`."""
        if self._task is None:
            raise RuntimeError("snapshot: no task has been started; call reset or restore first")
        return json.dumps(
            {
                "task": {
                    "environment": self._task.environment,
                    "task_id": self._task.task_id,
                    "seed": self._task.seed,
                    "options": dict(self._task.options),
                },
                "actions": self._actions,
                "digest": self.digest(),
            }
        ).encode()

    def restore(self, state: bytes) -> None:
        """Plays the snapshot's actions again; only the missing ones where the present episode is a beginning of it.

        Raises ValueError where the bytes are no snapshot, or where the actions led to another state than they did when
        the snapshot was taken: the environment has changed, or is not deterministic.
        """
        task, actions, digest = _parse(state)
        done = len(self._actions)
        if self._task != task or self._actions != list(actions[:done]):
            self.reset(task)
            done = 0
        for action in actions[done:]:
            self.step(action)
        if self.digest() != digest:
            self._task = None
            raise ValueError(
                f"snapshot: {len(actions)} actions of task {task.task_id!r} led to state {self.digest()!r}; "
                f"expected {digest!r}, as when the snapshot was taken"
            )


def _parse(state: bytes) -> tuple[Task, Sequence[str], str]:
    try:
        fields = cast("dict[str, object]", json.loads(state))
        task = cast("dict[str, object]", fields["task"])
        options = cast("dict[str, object]", task["options"])
        return (
            Task(
                environment=str(task["environment"]),
                task_id=str(task["task_id"]),
                seed=cast("int", task["seed"]),
                options=options,
            ),
            cast("list[str]", fields["actions"]),
            str(fields["digest"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"snapshot: {len(state)} bytes that are not a task with its actions: {error!r}") from error
