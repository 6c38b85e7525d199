"""What an environment is: a world that can be reset, stepped, forked and checked.

Verification restores a state that a trajectory passed through and plays on from it. So beside `reset` and `step` an
environment says what state it is in (`digest`) and, where it can, hands out that state as bytes (`snapshot`,
`restore`). An environment that cannot is wrapped by `prover.environments.replay.Replayed`, which restores by playing
the recorded actions again. `prover.environments.conformance` is the suite that every environment passes.
"""

from dataclasses import dataclass
from typing import Protocol

from prover.trajectory import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What `reset` answers: the text that the policy reads before its first turn."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What `step` answers.

    Attributes:
        observation: the text that the policy reads next.
        reward: paid for this action.
        done: the episode is over.
        success: the task is solved. Never true because a step limit was reached.
        valid: the environment understood and accepted the action.
    """

    observation: str
    reward: float
    done: bool
    success: bool
    valid: bool


class Environment(Protocol):
    """One world, one episode at a time. Not thread-safe; states are: `snapshot` may be restored anywhere."""

    deterministic: bool
    """The same task and the same actions always give the same observations."""

    can_snapshot: bool
    """`snapshot` and `restore` are to be had."""

    def reset(self, task: Task) -> Observation:
        """Starts the task. ValueError names the field where the task is unknown or malformed."""
        ...

    def step(self, action: str) -> Step:
        """Takes one action. Malformed actions are answered in the world's own words with `valid=False`, never
        raised. RuntimeError after the episode is done or before `reset`."""
        ...

    def admissible(self) -> list[str] | None:
        """The commands that would be accepted now, sorted; None where the environment cannot list them."""
        ...

    def snapshot(self) -> bytes:
        """The whole state. NotImplementedError where `can_snapshot` is False."""
        ...

    def restore(self, state: bytes) -> None:
        """Continues from a snapshot, in this process or another."""
        ...

    def digest(self) -> str:
        """A short name of the present state: equal states have equal digests, across processes and versions."""
        ...
