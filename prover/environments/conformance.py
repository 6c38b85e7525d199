"""What every environment has to keep to, as checks that anybody can run on theirs.

    subject = Subject(make=MyEnvironment, tasks=(Task(environment="mine", task_id="1"),))
    for finding in check(subject):
        print(finding.check, finding.problem or finding.skipped or "ok")

An environment without snapshots is checked with restore by replay, since that is how it will be used. The name of a
check is the promise that it holds the environment to; CHECKS lists them all.
"""

import random
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Final

from prover.environments.conformance_walks import (
    Broken,
    NotApplicable,
    Subject,
    digest_there,
    expect,
    expect_raises,
    follow,
    restorable,
    same,
    solved,
    walk,
    walk_inside,
)
from prover.trajectory import Task

__all__ = ["CHECKS", "Broken", "Finding", "NotApplicable", "Subject", "check"]

BAD_ACTIONS: Final = ("", "   ", "xyzzy", "go to", "go to nowhere 99", "\x00\x1b[31m", "a" * 5000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check: `problem` and `skipped` are empty where the promise was kept."""

    check: str
    problem: str = ""
    skipped: str = ""


def check(subject: Subject) -> list[Finding]:
    """Runs every check. An exception that no promise speaks of is a problem too."""
    return [_run(name, subject) for name in CHECKS]


def _run(name: str, subject: Subject) -> Finding:
    try:
        CHECKS[name](subject)
    except NotApplicable as reason:
        return Finding(check=name, skipped=str(reason))
    except Broken as problem:
        return Finding(check=name, problem=str(problem))
    except Exception as error:  # somebody else's environment may raise anything, and the other checks still matter
        return Finding(check=name, problem=f"{type(error).__name__}: {error}")
    return Finding(check=name)


def equal_actions_give_equal_answers(subject: Subject) -> None:
    """Determinism: texts, rewards, ends, admissible commands and digests are those of the first time."""
    for task in subject.tasks:
        first, again = restorable(subject), restorable(subject)
        expect(first.reset(task) == again.reset(task), f"task {task.task_id!r}: two resets answered differently")
        expect(first.digest() == again.digest(), f"task {task.task_id!r}: two resets had different digests")
        steps = walk(first, subject, seed=1)
        same(steps, follow(again, steps), f"task {task.task_id!r}, the same actions again")


def reset_starts_over(subject: Subject) -> None:
    """What happened in the last episode leaves no trace in the next."""
    for task in subject.tasks:
        environment = subject.make()
        observation, digest = environment.reset(task), environment.digest()
        walk(environment, subject, seed=2)
        expect(environment.reset(task) == observation, f"task {task.task_id!r}: the second reset answered differently")
        expect(environment.digest() == digest, f"task {task.task_id!r}: the second reset had another digest")


def restore_continues(subject: Subject) -> None:
    """From a snapshot, another environment goes on exactly as the first one did."""
    for task in subject.tasks:
        environment, other = restorable(subject), restorable(subject)
        walk_inside(environment, subject, task, seed=3)
        snapshot, digest = environment.snapshot(), environment.digest()
        future = walk(environment, subject, seed=4)
        other.restore(snapshot)
        expect(other.digest() == digest, f"task {task.task_id!r}: the restored digest is {other.digest()!r}")
        same(future, follow(other, future), f"task {task.task_id!r}, after restore")


def forks_are_independent(subject: Subject) -> None:
    """What one fork does changes neither the other, nor the one that it was forked from, nor the snapshot."""
    for task in subject.tasks:
        root, left, right = restorable(subject), restorable(subject), restorable(subject)
        walk_inside(root, subject, task, seed=5)
        snapshot, digest = root.snapshot(), root.digest()
        left.restore(snapshot)
        right.restore(snapshot)
        walk(left, subject, seed=6)
        expect(right.digest() == digest, f"task {task.task_id!r}: a step of one fork changed another")
        expect(root.digest() == digest, f"task {task.task_id!r}: a step of a fork changed what it was forked from")
        walk(right, subject, seed=7)
        left.restore(snapshot)
        expect(left.digest() == digest, f"task {task.task_id!r}: a snapshot changed while its forks played")


def no_state_is_shared(subject: Subject) -> None:
    """Two environments that take turns behave as each does alone."""
    task, second = subject.tasks[0], subject.tasks[-1]
    one, two = restorable(subject), restorable(subject)
    one.reset(task)
    alone = walk(one, subject, seed=8)
    two.reset(second)
    alone_too = walk(two, subject, seed=9)
    one, two = restorable(subject), restorable(subject)
    one.reset(task)
    two.reset(second)
    for index in range(max(len(alone), len(alone_too))):
        same(alone[index : index + 1], follow(one, alone[index : index + 1]), "taking turns with another environment")
        same(alone_too[index : index + 1], follow(two, alone_too[index : index + 1]), "taking turns with another")


def snapshot_and_replay_agree(subject: Subject) -> None:
    """A restored snapshot and the same actions played again are the same state, by its digest."""
    for task in subject.tasks:
        environment, replayed, restored = restorable(subject), subject.make(), restorable(subject)
        steps = walk_inside(environment, subject, task, seed=10)
        replayed.reset(task)
        follow(replayed, steps)
        restored.restore(environment.snapshot())
        expect(restored.digest() == replayed.digest(), f"task {task.task_id!r}: replay and snapshot have other digests")


def snapshots_travel(subject: Subject) -> None:
    """Another process continues from a snapshot, and calls the state by the same digest."""
    environment = restorable(subject)
    walk_inside(environment, subject, subject.tasks[0], seed=11)
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as processes:
        try:
            there = processes.submit(digest_there, subject.make, environment.snapshot()).result()
        except ValueError as error:
            raise Broken(f"a new process refused the snapshot: {error}") from error
    expect(there == environment.digest(), f"the digest is {environment.digest()!r} here and {there!r} in a new process")


def bad_snapshots_are_refused(subject: Subject) -> None:
    """Bytes that are no snapshot raise ValueError."""
    for state in (b"", b"{}", b"\x00\xff nonsense"):
        environment = restorable(subject)
        expect_raises(ValueError, lambda e=environment, s=state: e.restore(s), f"restore({state!r})")


def missing_snapshots_are_said(subject: Subject) -> None:
    """`can_snapshot` is the truth: without it, `snapshot` raises NotImplementedError."""
    environment = subject.make()
    environment.reset(subject.tasks[0])
    if environment.can_snapshot:
        environment.restore(environment.snapshot())
    else:
        expect_raises(NotImplementedError, environment.snapshot, "snapshot with can_snapshot False")


def bad_actions_are_answered(subject: Subject) -> None:
    """Nonsense gets a text and `valid=False`, never an exception and never a success."""
    for task in subject.tasks:
        environment = subject.make()
        environment.reset(task)
        for action in BAD_ACTIONS:
            step = environment.step(action)
            expect(not step.valid, f"action {action[:40]!r}: valid was True; expected False")
            expect(not step.success, f"action {action[:40]!r}: success was True")
            if step.done:
                environment.reset(task)


def admissible_commands_are_accepted(subject: Subject) -> None:
    """The list is sorted, names nothing twice, and every command on it is valid."""
    environment = restorable(subject)
    walk_inside(environment, subject, subject.tasks[0], seed=12)
    snapshot, commands = environment.snapshot(), environment.admissible()
    if commands is None:
        raise NotApplicable("the environment lists no admissible commands")
    expect(commands == sorted(set(commands)), f"admissible: was {commands}; expected it sorted, without doubles")
    for command in random.Random(13).sample(commands, min(len(commands), subject.length)):
        environment.restore(snapshot)
        step = environment.step(command)
        expect(step.valid, f"{command!r} is on the list of admissible commands; valid was False")


def steps_need_an_episode(subject: Subject) -> None:
    """RuntimeError before `reset`, and after the episode is done."""
    expect_raises(RuntimeError, lambda: subject.make().step("look"), "step before reset")
    for task, environment, _ in solved(subject):
        expect_raises(RuntimeError, lambda e=environment: e.step("look"), f"step after the end of {task.task_id!r}")


def solutions_succeed(subject: Subject) -> None:
    """A solution ends in success with a positive reward, at its last action and not before."""
    for task, _, steps in solved(subject):
        expect(steps[-1].success and steps[-1].done, f"task {task.task_id!r}: its solution did not succeed")
        expect(steps[-1].reward > 0, f"task {task.task_id!r}: the reward of its solution was {steps[-1].reward}")
        expect(not any(step.success for step in steps[:-1]), f"task {task.task_id!r}: success before the last action")


def unknown_tasks_are_refused(subject: Subject) -> None:
    """ValueError for a task that does not exist, the ones that climb out of a data folder among them."""
    name = subject.tasks[0].environment
    for task_id in ("no such task", "../../etc/passwd", "/etc/passwd"):
        environment = subject.make()
        task = Task(environment=name, task_id=task_id)
        expect_raises(ValueError, lambda e=environment, t=task: e.reset(t), f"reset of task {task_id!r}")


def a_step_limit_is_never_a_success(subject: Subject) -> None:
    """An episode that runs out of steps is done, without success and without reward."""
    if subject.limited is None:
        raise NotApplicable("the environment has no step limit of its own")
    environment = subject.limited(3)
    environment.reset(subject.tasks[0])
    steps = [environment.step("xyzzy") for _ in range(3)]
    expect([step.done for step in steps] == [False, False, True], "done: expected at the limit of 3 steps, not before")
    expect(not any(step.success or step.reward > 0 for step in steps), "the step limit was counted as a success")


CHECKS: Mapping[str, Callable[[Subject], None]] = {
    promise.__name__: promise
    for promise in (
        equal_actions_give_equal_answers,
        reset_starts_over,
        restore_continues,
        forks_are_independent,
        no_state_is_shared,
        snapshot_and_replay_agree,
        snapshots_travel,
        bad_snapshots_are_refused,
        missing_snapshots_are_said,
        bad_actions_are_answered,
        admissible_commands_are_accepted,
        steps_need_an_episode,
        solutions_succeed,
        unknown_tasks_are_refused,
        a_step_limit_is_never_a_success,
    )
}
"""Name -> promise. Each raises `Broken` or `NotApplicable`."""
