"""The front door's logic: what may come in, what is stored, what is told.

An analysis' life begins here: it is checked, stored as queued, and sent to the queue `analyze`. From then on it belongs
to the verifier; `sweep` sends it again where nothing happens to it. So a message that is lost, here or later, costs
time and nothing else, and `submit` answers as soon as the analysis is stored.
"""

import asyncio
import hashlib
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol
from uuid import uuid4

from pydantic import ValidationError

from prover.agents import AGENTS
from prover.analysis import Analysis
from prover.credit.modes import MODES
from prover.environments import known as known_environments
from prover.lifecycle import END_STATES, Status
from prover.policies import PolicyError, PolicyInfo
from prover.store import AnalysisStore
from prover.trajectory import Task, TrajectoryCredit
from services.gateway import problems
from services.gateway.checks import KnownNames, mistakes
from services.gateway.models import Submission
from services.gateway.problems import Mistake, Problem

_log = logging.getLogger(__name__)
_ID = re.compile(r"[0-9a-z]{1,64}")
_KEY_TTL_S = 7 * 24 * 3600
_TASK_CHECK_LIMIT_S = 10.0
_POLICY_LIMIT_S = 5.0

_NO_ADVANTAGES = frozenset({Status.CANCELLED, Status.FAILED})


class QueueDown(Exception):
    """The message could not be sent."""


class Queue(Protocol):
    """Where analyses are sent to be worked on."""

    async def analyze(self, analysis_id: str) -> None:
        """Sends one. QueueDown where the broker does not take it; sending twice is harmless."""
        ...


class PolicySource(Protocol):
    """What the gateway needs of a policy engine: `prover.policies.PolicyClient` is one."""

    async def info(self) -> PolicyInfo:
        """What the engine serves now. Raises PolicyError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """What the gateway asks before it lets an analysis in.

    Attributes:
        policies: engines by name, the default one first.
        judges: names that the judge knows; None where it cannot be asked now.
        check_task: tries a task; ValueError where there is none of that name. Runs in a thread.
        max_active: most analyses under way.
    """

    policies: Mapping[str, PolicySource]
    judges: Callable[[], Awaitable[frozenset[str] | None]]
    check_task: Callable[[Task], None] | None
    max_active: int


class Gateway:
    """Bound to the event loop of its store."""

    def __init__(self, store: AnalysisStore, queue: Queue, doors: Doors) -> None:
        self.store = store
        self._queue = queue
        self._doors = doors
        # Looked up once: it reads the metadata of every installed package.
        self._environments = frozenset(known_environments())
        self._checks = asyncio.Semaphore(2)
        # A large body takes ten times its size while it is read.
        self._parses = asyncio.Semaphore(2)

    async def submit(self, body: bytes, *, key: str | None = None) -> str:
        """Takes an analysis in and answers its id. Raises Problem.

        `key` makes it safe to repeat: the same key and the same bytes are the same analysis for seven days. The key is
        written before the analysis; where the gateway dies in between, the next try stores it under the same id.
        """
        digest = hashlib.sha256(body).hexdigest()
        claimed = None if key is None else await self.store.find_key(key)
        analysis_id = self._same(claimed, digest) if claimed else uuid4().hex
        if claimed and await self.store.get(analysis_id) is not None:
            return analysis_id
        await self._admit()
        async with self._parses:
            submission = await asyncio.to_thread(_parse, body)
        await self._check(submission)
        policy = submission.options.policy or next(iter(self._doors.policies))
        version = submission.group.policy_version or await self._present_version(submission, policy)
        group = submission.group.to_noun(version)
        options = submission.options.to_noun(policy=policy, reward_range=submission.reward_range)
        if key is not None:
            claim = await self.store.claim_key(key, analysis_id=analysis_id, body_digest=digest, ttl_s=_KEY_TTL_S)
            analysis_id = self._same(claim, digest)
        await self.store.create(analysis_id, group, options)
        try:
            await self._queue.analyze(analysis_id)
        except QueueDown:
            _log.warning("stored but not sent; the sweep will send it", extra={"analysis": analysis_id})
        return analysis_id

    async def get(self, analysis_id: str, *, wait_s: float = 0.0) -> Analysis:
        """The analysis; with `wait_s`, once it has ended or after that time."""
        self._check_id(analysis_id)
        if wait_s > 0:
            analysis = await self.store.wait(analysis_id, timeout_s=wait_s)
        else:
            analysis = await self.store.get(analysis_id)
        if analysis is None:
            raise problems.not_found(analysis_id)
        return analysis

    async def advantages(self, analysis_id: str) -> tuple[TrajectoryCredit, ...]:
        """The advantages, in the order of the group. Problem 409 while there are none, or where there never will be."""
        analysis = await self.get(analysis_id)
        status = analysis.status
        if status not in END_STATES:
            detail = f"status: was {status.value}; expected an end state. Ask for the analysis with ?wait= first"
            raise Problem(409, "not-ended", "The analysis has not ended", detail=detail, retry_after_s=1)
        if status in _NO_ADVANTAGES:
            reason = f": {analysis.error}" if analysis.error else ""
            detail = f"status: was {status.value}{reason}; expected an analysis that ended with advantages"
            raise Problem(409, "no-advantages", "The analysis ended without advantages", detail=detail)
        try:
            return await self.store.credit(analysis_id)
        except KeyError:
            # Deleted between the two looks.
            if await self.store.get(analysis_id) is None:
                raise problems.not_found(analysis_id) from None
            raise

    async def cancel(self, analysis_id: str) -> Analysis:
        """Stops it; continuations under way are thrown away. Cancelling twice is fine, cancelling an answer is not."""
        await self.get(analysis_id)
        await self.store.move(analysis_id, Status.CANCELLED)
        analysis = await self.get(analysis_id)
        if analysis.status is not Status.CANCELLED:
            detail = f"status: was {analysis.status.value}; expected an analysis that is under way"
            raise Problem(409, "ended", "The analysis has ended already", detail=detail)
        return analysis

    async def delete(self, analysis_id: str) -> None:
        """Removes every trace of it."""
        self._check_id(analysis_id)
        if not await self.store.delete(analysis_id):
            raise problems.not_found(analysis_id)

    async def policy(self, name: str | None = None) -> PolicyInfo:
        """What a policy engine serves now; without a name, the default one."""
        known = self._doors.policies
        chosen = name or next(iter(known))
        if chosen not in known:
            raise problems.invalid_parameter("policy", chosen, f"one of {', '.join(known)}")
        try:
            return await asyncio.wait_for(known[chosen].info(), _POLICY_LIMIT_S)
        except PolicyError as error:
            raise problems.unavailable(f"The policy engine {chosen!r}", str(error)) from error
        except TimeoutError as error:
            raise problems.unavailable(f"The policy engine {chosen!r}", f"no answer in {_POLICY_LIMIT_S} s") from error

    async def _present_version(self, submission: Submission, policy: str) -> str:
        """Where the caller plays the continuations, no engine here has made the group."""
        if submission.options.continuations == "external":
            return "external"
        return (await self.policy(policy)).version

    def _check_id(self, analysis_id: str) -> None:
        if not _ID.fullmatch(analysis_id):
            raise problems.not_found(analysis_id)

    def _same(self, claim: tuple[str, str], digest: str) -> str:
        analysis_id, claimed_digest = claim
        if claimed_digest == digest:
            return analysis_id
        mistake = Mistake(
            field="Idempotency-Key", was="the key of another body", expected="a new key, or the very body it came with"
        )
        raise Problem(422, "idempotency-key-reused", "The key stands for another request", mistakes=[mistake])

    async def _admit(self) -> None:
        active = await self.store.active()
        if active >= self._doors.max_active:
            detail = f"{active} analyses are under way; expected fewer than {self._doors.max_active}"
            raise Problem(429, "too-many-active", "Too many analyses are under way", detail=detail, retry_after_s=5)

    async def _check(self, submission: Submission) -> None:
        known = KnownNames(
            environments=self._environments,
            agents=AGENTS,
            modes=MODES,
            policies=self._doors.policies,
            judges=await self._doors.judges(),
        )
        found = mistakes(submission, known)
        if found:
            raise problems.invalid_analysis(found)
        if self._doors.check_task is not None and submission.options.continuations == "internal":
            await self._try_task(submission.group.task.to_noun(), self._doors.check_task)

    async def _try_task(self, task: Task, check: Callable[[Task], None]) -> None:
        try:
            async with self._checks:
                await asyncio.wait_for(asyncio.to_thread(check, task), _TASK_CHECK_LIMIT_S)
        except ValueError as error:
            raise problems.invalid_analysis([problems.mistake_of(error, task_id=task.task_id)]) from error
        except TimeoutError as error:
            detail = f"task {task.task_id!r} could not be tried within {_TASK_CHECK_LIMIT_S} s"
            raise problems.unavailable(f"The environment {task.environment!r}", detail) from error


def _parse(body: bytes) -> Submission:
    try:
        return Submission.model_validate_json(body)
    except ValidationError as error:
        raise problems.from_validation(error) from error
