"""Walks through an environment, recorded and compared: what the conformance checks are made of."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from prover.environments.environment import Environment, Step
from prover.environments.replay import Replayed
from prover.trajectory import Task


class Broken(AssertionError):
    """The environment does not keep a promise. The message says what was seen and what was expected."""


class NotApplicable(Exception):
    """The check needs something that the subject does not give. The message says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An environment to check.

    Attributes:
        make: makes a fresh one. A function of a module or a class, so that other processes can call it too.
        tasks: some tasks of it; one is enough where steps are slow.
        actions: where the environment cannot list admissible commands, actions to walk with.
        solutions: task id -> actions that solve it, for the checks of how an episode ends.
        limited: makes one whose episodes end after so many steps, where the environment has such a limit.
        length: steps of a walk.
    """

    make: Callable[[], Environment]
    tasks: tuple[Task, ...]
    actions: tuple[str, ...] = ()
    solutions: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    limited: Callable[[int], Environment] | None = None
    length: int = 12

    def __post_init__(self) -> None:
        if not self.tasks:
            raise ValueError("subject.tasks: was empty; expected at least one task")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What one step of a walk showed: everything that a policy or a verifier can see of it."""

    action: str
    step: Step
    admissible: list[str] | None
    digest: str


def restorable(subject: Subject) -> Environment:
    """A fresh environment with snapshots: its own, or restore by replay."""
    environment = subject.make()
    if environment.can_snapshot:
        return environment
    if not environment.deterministic:
        raise NotApplicable("the environment is not deterministic and has no snapshots: it cannot be restored")
    return Replayed(environment)


def walk(environment: Environment, subject: Subject, *, seed: int) -> list[Seen]:
    """Takes up to `subject.length` actions, admissible ones as far as the environment lists them, and records them."""
    rng = random.Random(seed)
    seen: list[Seen] = []
    for _ in range(subject.length):
        choices = environment.admissible() or subject.actions
        if not choices:
            raise NotApplicable("the environment lists no admissible commands; give Subject.actions to walk with")
        seen.append(_take(environment, rng.choice(choices)))
        if seen[-1].step.done:
            break
    return seen


def walk_inside(environment: Environment, subject: Subject, task: Task, *, seed: int) -> list[Seen]:
    """Starts the task and walks, but stays inside the episode: an action that would end it is not taken."""
    environment.reset(task)
    seen = walk(environment, subject, seed=seed)
    if not seen[-1].step.done:
        return seen
    environment.reset(task)
    return follow(environment, seen[:-1])


def follow(environment: Environment, recorded: Sequence[Seen]) -> list[Seen]:
    """Takes the actions of a walk again."""
    return [_take(environment, seen.action) for seen in recorded]


def solved(subject: Subject) -> Iterator[tuple[Task, Environment, list[Step]]]:
    """The tasks whose solution is known, each played to its end. NotApplicable where none is."""
    if not subject.solutions:
        raise NotApplicable("no solution is known; give Subject.solutions")
    for task in subject.tasks:
        if task.task_id in subject.solutions:
            environment = subject.make()
            environment.reset(task)
            steps = [environment.step(action) for action in subject.solutions[task.task_id]]
            yield task, environment, steps


def digest_there(make: Callable[[], Environment], snapshot: bytes) -> str:
    """Runs in another process: the digest of a restored snapshot."""
    environment = make()
    if not environment.can_snapshot:
        environment = Replayed(environment)
    environment.restore(snapshot)
    return environment.digest()


def expect(kept: bool, problem: str) -> None:
    """Raises Broken with that problem unless the promise was kept."""
    if not kept:
        raise Broken(problem)


def expect_raises(kind: type[Exception], act: Callable[[], object], what: str) -> None:
    """Raises Broken unless `act` raises that kind of exception."""
    try:
        act()
    except kind:
        return
    except Exception as error:  # the wrong kind is a finding, whatever it is
        raise Broken(f"{what}: raised {type(error).__name__}: {error}; expected {kind.__name__}") from error
    raise Broken(f"{what}: nothing was raised; expected {kind.__name__}")


def same(expected: Sequence[Seen], got: Sequence[Seen], where: str) -> None:
    """Raises Broken at the first step of two walks that differs, showing both."""
    for index, (one, other) in enumerate(zip(expected, got, strict=True)):
        expect(one == other, f"{where}: step {index}: was {other}; expected {one}")


def _take(environment: Environment, action: str) -> Seen:
    step = environment.step(action)
    return Seen(action=action, step=step, admissible=environment.admissible(), digest=environment.digest())
