"""Groups from the rollout service, several at once, until a step has enough that can teach something."""

import asyncio
import hashlib
import logging
import math
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from prover.policies.policy import PolicyInfo, Sampling
from prover.rpc.clients import RpcError
from prover.training.experiment import Credit, Experiment
from prover.trajectory import FailedAttempt, Group, Task, Trajectory

_log = logging.getLogger(__name__)


class SamplingFailed(Exception):
    """No group of a step came to anything. Has the first reason."""


class Rollouts(Protocol):
    """The rollout service: `prover.rpc.clients.RolloutClient`."""

    def attempt_group(
        self, task: Task, *, size: int, max_turns: int, agent: str, sampling: Sampling, timeout_s: float
    ) -> AsyncGenerator[Trajectory | FailedAttempt]:
        """What became of each attempt, as they finish. Raises RpcError where none succeeded."""
        ...

    async def policy(self, *, timeout_s: float) -> PolicyInfo:
        """What is sampled from now."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What was sampled for a step.

    Attributes:
        groups: all of them, with and without a signal, in the order in which they were asked for.
        learner_step: optimizer steps behind the weights that sampled them.
        failed: groups in which no attempt came to anything.
        failed_attempts: single trajectories that did not, in all groups.
    """

    groups: tuple[Group, ...]
    learner_step: int
    failed: int
    failed_attempts: int
    seconds: float

    @property
    def tokens(self) -> int:
        """That the policy sampled."""
        return sum(
            len(turn.token_ids or ())
            for group in self.groups
            for trajectory in group.trajectories
            for turn in trajectory.turns
        )


def has_signal(group: Group, credit: Credit) -> bool:
    """Whether any advantage will differ from 0: the rewards differ, or a turn pays the penalty for invalid ones."""
    if len({trajectory.reward for trajectory in group.trajectories}) > 1:
        return True
    return credit.invalid_penalty > 0 and any(
        not turn.valid for trajectory in group.trajectories for turn in trajectory.turns
    )


async def sample_batch(
    rollouts: Rollouts,
    task_ids: Sequence[str],
    experiment: Experiment,
    *,
    step: int,
    learner_step: int,
    progress: Callable[[int, int], None],
) -> Batch:
    """Samples groups of the tasks, in order, until enough have a signal or no task is left.

    What has begun is finished and kept: stopping the slow ones would favour short episodes. Raises SamplingFailed.
    """
    begun = time.monotonic()
    settings = experiment.rollouts
    waiting = iter(enumerate(task_ids))
    running: set[asyncio.Task[_Sampled]] = set()
    done: list[_Sampled] = []
    useful = 0
    try:
        while True:
            for _ in range(_places(settings.groups - useful, len(done), useful, settings.concurrent) - len(running)):
                _start(running, waiting, rollouts, experiment, step)
            if not running:
                break
            finished, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            done += [task.result() for task in finished]
            useful = sum(_useful(sampled.group, experiment) for sampled in done)
            progress(useful, settings.groups)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    return _batch(done, learner_step=learner_step, seconds=time.monotonic() - begun)


def sampled_seed(*parts: object) -> int:
    """A seed for the engine that no other step or task has.

    >>> sampled_seed(0, 1, "a") == sampled_seed(0, 2, "a")
    False
    """
    return int.from_bytes(hashlib.blake2b("/".join(map(str, parts)).encode(), digest_size=6).digest(), "big")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sampled:
    number: int
    group: Group | None
    failed_attempts: int
    reason: str


def _useful(group: Group | None, experiment: Experiment) -> bool:
    return group is not None and (has_signal(group, experiment.credit) or not experiment.rollouts.dynamic)


def _places(missing: int, tried: int, useful: int, most: int) -> int:
    """Groups to have under way: as many as it takes, at the present share of useful ones, to get what is missing."""
    if missing <= 0:
        return 0
    share = (useful + 1) / (tried + 1)
    return min(most, math.ceil(missing / share))


def _start(
    running: set[asyncio.Task[_Sampled]],
    waiting: Iterator[tuple[int, str]],
    rollouts: Rollouts,
    experiment: Experiment,
    step: int,
) -> None:
    following = next(waiting, None)
    if following is not None:
        number, task_id = following
        running.add(asyncio.create_task(_sample_group(rollouts, experiment, task_id, number=number, step=step)))


async def _sample_group(
    rollouts: Rollouts, experiment: Experiment, task_id: str, *, number: int, step: int
) -> _Sampled:
    settings = experiment.rollouts
    task = experiment.tasks.task(task_id)
    sampling = Sampling(
        temperature=settings.temperature,
        top_p=settings.top_p,
        max_tokens=settings.max_tokens,
        seed=sampled_seed(experiment.seed, step, task_id),
    )
    attempts = rollouts.attempt_group(
        task,
        size=settings.group_size,
        max_turns=settings.max_turns,
        agent=settings.agent,
        sampling=sampling,
        timeout_s=settings.timeout_s,
    )
    trajectories: list[Trajectory] = []
    failures: list[FailedAttempt] = []
    reason = ""
    try:
        async for attempt in attempts:
            if isinstance(attempt, FailedAttempt):
                failures.append(attempt)
            else:
                trajectories.append(attempt)
    except RpcError as error:
        if error.invalid:
            raise
        reason = str(error)
        _log.warning("group of %s failed: %s", task_id, error)
    finally:
        await attempts.aclose()
    if not trajectories:
        return _Sampled(number=number, group=None, failed_attempts=len(failures), reason=reason)
    ordered = tuple(sorted(trajectories, key=lambda trajectory: trajectory.id))
    group = Group(task=task, policy_version=ordered[0].policy_version, trajectories=ordered)
    return _Sampled(number=number, group=group, failed_attempts=len(failures), reason=reason)


def _batch(done: Sequence[_Sampled], *, learner_step: int, seconds: float) -> Batch:
    ordered = sorted(done, key=lambda sampled: sampled.number)
    groups = tuple(sampled.group for sampled in ordered if sampled.group is not None)
    if not groups:
        raise SamplingFailed(f"all {len(done)} groups of the step failed; the first: {ordered[0].reason}")
    return Batch(
        groups=groups,
        learner_step=learner_step,
        failed=len(done) - len(groups),
        failed_attempts=sum(sampled.failed_attempts for sampled in done),
        seconds=seconds,
    )
