"""Samples groups: several trajectories of one task, at the same time, all from one policy version.

Each trajectory plays in an environment of its own. An attempt that fails (the engine did not answer, the policy was
changed under it too often) is a value with a reason; its siblings go on. What would fail every attempt alike, such as
an unknown task, is the caller's mistake and ends the call as `InvalidRequest`.
"""

import asyncio
import hashlib
import math
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, replace
from typing import Protocol

from prover import agents
from prover.agents.agent import Agent
from prover.environments.environment import Environment
from prover.episodes import MixedVersions, Played, Start, play, start, stop_tokens
from prover.policies.policy import Policy, PolicyError, PolicyInfo, Sampling
from prover.policies.publish import Publisher
from prover.trajectory import FailedAttempt, Task, Trajectory

MAX_GROUP_SIZE = 256
"""A group is held in memory until its last trajectory is sent."""

MAX_TURNS = 1000
TRIES = 3
"""How often a trajectory is sampled anew because the policy changed in the middle of it."""


class InvalidRequest(ValueError):
    """The caller asked for what cannot be sampled. Names the field."""


class GroupFailed(Exception):
    """No attempt of a group came to anything. The message has the first reason."""


class Observer(Protocol):
    """Whoever counts."""

    def finished(self, trajectory: Trajectory, seconds: float) -> None:
        """A trajectory was sampled in this many seconds, waiting for a place not counted."""
        ...

    def failed(self, attempt: FailedAttempt) -> None:
        """An attempt came to nothing."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOrder:
    """What to sample. `sampling.seed` makes the group repeatable where the engine is; the task has the world's seed."""

    task: Task
    size: int
    max_turns: int
    agent: str
    sampling: Sampling

    def __post_init__(self) -> None:
        if not 1 <= self.size <= MAX_GROUP_SIZE:
            raise InvalidRequest(f"group_size: was {self.size}; expected 1 to {MAX_GROUP_SIZE}")
        if not 1 <= self.max_turns <= MAX_TURNS:
            raise InvalidRequest(f"max_turns: was {self.max_turns}; expected 1 to {MAX_TURNS}")
        if not (math.isfinite(self.sampling.temperature) and self.sampling.temperature >= 0):
            raise InvalidRequest(f"sampling.temperature: was {self.sampling.temperature}; expected 0 or more")
        if self.sampling.seed is not None and self.sampling.seed < 0:
            raise InvalidRequest(f"seed: was {self.sampling.seed}; expected 0 or more, or none")


class Rollout:
    """Samples from one policy engine, at most `max_concurrent` episodes at a time over all calls."""

    def __init__(
        self,
        policy: Policy,
        *,
        publisher: Publisher,
        make_environment: Callable[[str], Environment],
        max_concurrent: int,
        observer: Observer,
    ) -> None:
        self._policy = policy
        self._publisher = publisher
        self._make_environment = make_environment
        self._places = asyncio.Semaphore(max_concurrent)
        self._observer = observer

    async def policy(self) -> PolicyInfo:
        """What trajectories are sampled from now. Raises PolicyError."""
        return await self._policy.info()

    async def set_policy(self, weights_path: str) -> PolicyInfo:
        """Has the engine load other weights. Raises PublishFailed; the old ones serve on then."""
        await self._publisher.publish(weights_path)
        return await self._policy.info()

    async def sample_group(self, order: GroupOrder) -> AsyncGenerator[Trajectory | FailedAttempt]:
        """What became of each attempt, as they finish. Closing the generator stops what is still being sampled.

        Raises InvalidRequest, PolicyError where the engine cannot be asked at all, GroupFailed after the last attempt
        where none succeeded.
        """
        agent = _agent(order.agent)
        order = replace(order, sampling=replace(order.sampling, stop_token_ids=await _stop(agent, self._policy)))
        version = _GroupVersion()
        tasks = [asyncio.create_task(self._attempt(order, agent, index, version)) for index in range(order.size)]
        failures: list[FailedAttempt] = []
        try:
            for finished in asyncio.as_completed(tasks):
                result = await finished
                if isinstance(result, FailedAttempt):
                    failures.append(result)
                yield result
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if len(failures) == order.size:
            raise GroupFailed(f"all {order.size} attempts failed; {failures[0].trajectory_id}: {failures[0].reason}")

    async def _attempt(
        self, order: GroupOrder, agent: Agent, index: int, version: "_GroupVersion"
    ) -> Trajectory | FailedAttempt:
        trajectory_id = f"t{index}"
        async with self._places:
            begun = time.monotonic()
            result = await self._sample(order, agent, index, version)
            if isinstance(result, str):
                failed = FailedAttempt(trajectory_id=trajectory_id, reason=result)
                self._observer.failed(failed)
                return failed
            trajectory = Trajectory(
                id=trajectory_id,
                task=order.task,
                policy_version=result.policy_version,
                turns=result.turns,
                reward=result.reward,
                success=result.success,
                ending=result.ending,
            )
            self._observer.finished(trajectory, time.monotonic() - begun)
            return trajectory

    async def _sample(self, order: GroupOrder, agent: Agent, index: int, version: "_GroupVersion") -> Played | str:
        """An episode of the group's version, or the reason why there is none."""
        reason = ""
        for attempt in range(TRIES):
            seed = None if order.sampling.seed is None else derive_seed(order.sampling.seed, index, attempt)
            try:
                played = await self._play(order, agent, replace(order.sampling, seed=seed))
                if not played.turns:
                    return "the first context leaves no room for a turn; choose a policy that can read more"
                if version.accepts(played.policy_version):
                    return played
                reason = f"was sampled from {played.policy_version!r}; its group is of {version.fixed!r}"
                if version.is_past(await self._policy.info()):
                    break
            except MixedVersions as mixed:
                reason = str(mixed)
            except (PolicyError, OSError) as error:
                return f"{type(error).__name__}: {error}"
        return f"{reason}. The policy was changed while the group was sampled: sample the group again"

    async def _play(self, order: GroupOrder, agent: Agent, sampling: Sampling) -> Played:
        environment = self._make(order.task.environment)
        begin = await self._start(environment, order.task, agent)
        return await play(
            environment, begin, agent=agent, policy=self._policy, sampling=sampling, max_turns=order.max_turns
        )

    def _make(self, name: str) -> Environment:
        try:
            return self._make_environment(name)
        except ValueError as error:
            raise InvalidRequest(f"task.{error}") from error

    async def _start(self, environment: Environment, task: Task, agent: Agent) -> Start:
        try:
            return await start(environment, task, agent=agent, policy=self._policy)
        except ValueError as error:
            raise InvalidRequest(str(error)) from error


class _GroupVersion:
    """The version of a group: that of the first trajectory that finishes."""

    def __init__(self) -> None:
        self.fixed = ""

    def accepts(self, version: str) -> bool:
        """Whether a finished trajectory of this version belongs to the group; the first one always does."""
        self.fixed = self.fixed or version
        return version == self.fixed

    def is_past(self, info: PolicyInfo) -> bool:
        """No further trajectory can come from the group's version."""
        return info.version != self.fixed


def derive_seed(seed: int, index: int, attempt: int) -> int:
    """The seed of one trajectory of a group: far apart from its siblings', since turns count on from it.

    >>> derive_seed(7, 0, 0) == derive_seed(7, 0, 0)
    True
    >>> derive_seed(7, 0, 0) == derive_seed(7, 1, 0)
    False
    """
    digest = hashlib.blake2b(f"{seed}/{index}/{attempt}".encode(), digest_size=6).digest()
    return int.from_bytes(digest, "big")


def _agent(name: str) -> Agent:
    try:
        return agents.make(name)
    except ValueError as error:
        raise InvalidRequest(str(error)) from error


async def _stop(agent: Agent, policy: Policy) -> tuple[int, ...]:
    try:
        return await stop_tokens(agent, policy)
    except ValueError as error:
        raise InvalidRequest(str(error)) from error
