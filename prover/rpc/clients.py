"""The services, seen from outside, in nouns. Every call has a deadline; a failed one raises RpcError saying which."""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing

import grpc

from prover.policies.policy import PolicyInfo, Sampling
from prover.policies.publish import Published
from prover.rpc import convert
from prover.rpc.settings import ANALYSIS_KEY
from prover.rpc.v1 import (
    judge_pb2,
    judge_pb2_grpc,
    learner_pb2,
    learner_pb2_grpc,
    rollout_pb2,
    rollout_pb2_grpc,
)
from prover.telemetry import analysis
from prover.training import LearnerState, StepMetrics
from prover.trajectory import CreditedTrajectory, FailedAttempt, Group, Judgement, Task, Trajectory, Turn

_log = logging.getLogger(__name__)


class RpcError(Exception):
    """A call failed. `invalid` tells the caller's mistake from the service's."""

    def __init__(self, call: str, error: grpc.aio.AioRpcError) -> None:
        super().__init__(f"{call}: {error.code().name}: {error.details()}")
        self.invalid = error.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND)


class JudgeClient:
    """`JudgeService`."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = judge_pb2_grpc.JudgeServiceStub(channel)

    async def propose(
        self,
        group: Group,
        *,
        judge: str,
        timeout_s: float,
        max_proposals: int = 1,
        max_mistakes: int = 0,
        seed: int = 0,
    ) -> Judgement:
        """Asks a judge for the segments that made the difference. The call says which analysis it is about."""
        request = judge_pb2.ProposeRequest(
            group=convert.group_to_wire(group),
            judge=judge,
            max_proposals=max_proposals,
            max_mistakes=max_mistakes,
            seed=seed,
        )
        about = analysis()
        metadata = None if about is None else ((ANALYSIS_KEY, about),)
        try:
            return convert.judgement_from_wire(await self._stub.Propose(request, timeout=timeout_s, metadata=metadata))
        except grpc.aio.AioRpcError as error:
            raise RpcError("JudgeService.Propose", error) from error

    async def judges(self, *, timeout_s: float) -> tuple[str, ...]:
        """The names that `propose` takes."""
        try:
            answer = await self._stub.ListJudges(judge_pb2.ListJudgesRequest(), timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            raise RpcError("JudgeService.ListJudges", error) from error
        return tuple(answer.judges)


class RolloutClient:
    """`RolloutService`."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = rollout_pb2_grpc.RolloutServiceStub(channel)

    async def sample_group(
        self,
        task: Task,
        *,
        size: int,
        max_turns: int,
        agent: str,
        sampling: Sampling,
        timeout_s: float,
    ) -> AsyncIterator[Trajectory]:
        """Trajectories as they finish; attempts that failed are logged and left out: see `attempt_group`."""
        attempts = self.attempt_group(
            task, size=size, max_turns=max_turns, agent=agent, sampling=sampling, timeout_s=timeout_s
        )
        async with aclosing(attempts):
            async for attempt in attempts:
                if isinstance(attempt, FailedAttempt):
                    _log.warning("RolloutService.SampleGroup: %s failed: %s", attempt.trajectory_id, attempt.reason)
                else:
                    yield attempt

    async def attempt_group(
        self,
        task: Task,
        *,
        size: int,
        max_turns: int,
        agent: str,
        sampling: Sampling,
        timeout_s: float,
    ) -> AsyncGenerator[Trajectory | FailedAttempt]:
        """What became of each attempt, as they finish. `sampling.seed` makes the group repeatable.

        Raises RpcError where none succeeded. Closing the iterator stops the sampling.
        """
        request = rollout_pb2.SampleGroupRequest(
            task=convert.task_to_wire(task),
            group_size=size,
            max_turns=max_turns,
            agent=agent,
            sampling=convert.sampling_to_wire(sampling),
            seed=sampling.seed,
        )
        call = self._stub.SampleGroup(request, timeout=timeout_s)
        try:
            async for message in call:
                yield convert.attempt_from_wire(message)
        except grpc.aio.AioRpcError as error:
            raise RpcError("RolloutService.SampleGroup", error) from error
        finally:
            call.cancel()

    async def sample_trajectory(
        self, task: Task, *, max_turns: int, agent: str, sampling: Sampling, timeout_s: float
    ) -> Trajectory:
        """One trajectory. Raises RpcError where the attempt failed."""
        request = rollout_pb2.SampleTrajectoryRequest(
            task=convert.task_to_wire(task),
            max_turns=max_turns,
            agent=agent,
            sampling=convert.sampling_to_wire(sampling),
            seed=sampling.seed,
        )
        try:
            answer = await self._stub.SampleTrajectory(request, timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            raise RpcError("RolloutService.SampleTrajectory", error) from error
        return convert.trajectory_from_wire(answer.trajectory)

    async def policy(self, *, timeout_s: float) -> PolicyInfo:
        """The policy that trajectories are sampled from now."""
        try:
            answer = await self._stub.GetPolicy(rollout_pb2.GetPolicyRequest(), timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            raise RpcError("RolloutService.GetPolicy", error) from error
        return convert.policy_from_wire(answer.policy)

    async def set_policy(self, weights_path: str, *, timeout_s: float) -> PolicyInfo:
        """Has the engine load other weights."""
        request = rollout_pb2.SetPolicyRequest(weights_path=weights_path)
        try:
            answer = await self._stub.SetPolicy(request, timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            raise RpcError("RolloutService.SetPolicy", error) from error
        return convert.policy_from_wire(answer.policy)


class LearnerClient:
    """`LearnerService`."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = learner_pb2_grpc.LearnerServiceStub(channel)

    async def step(
        self, batch: Sequence[CreditedTrajectory], *, timeout_s: float, after_step: int | None = None
    ) -> StepMetrics:
        """One optimizer step. With `after_step` (steps taken before it) the call may safely be made again: a step that
        was already taken is answered and not taken twice."""

        async def requests() -> AsyncIterator[learner_pb2.StepRequest]:
            for credited in batch:
                yield learner_pb2.StepRequest(credited=convert.credited_to_wire(credited), after_step=after_step)

        try:
            answer = await self._stub.Step(requests(), timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            raise RpcError("LearnerService.Step", error) from error
        return convert.step_metrics_from_wire(answer)

    async def publish(self, *, timeout_s: float) -> Published:
        """Saves the present weights as a version and has the engine serve them."""
        try:
            answer = await self._stub.Publish(learner_pb2.PublishRequest(), timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            raise RpcError("LearnerService.Publish", error) from error
        return Published(
            version=answer.version, weights_path=answer.weights_path, probe_difference=answer.probe_difference
        )

    async def score(self, turns: Sequence[Turn], *, timeout_s: float) -> list[tuple[float, ...]]:
        """Log-probabilities of each turn's sampled tokens under the learner's present weights."""
        request = learner_pb2.ScoreRequest(turns=[convert.turn_to_wire(turn) for turn in turns])
        try:
            answer = await self._stub.Score(request, timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            raise RpcError("LearnerService.Score", error) from error
        return [tuple(numbers.values) for numbers in answer.logprobs]

    async def state(self, *, timeout_s: float) -> LearnerState:
        """How far training has come."""
        try:
            answer = await self._stub.GetState(learner_pb2.GetStateRequest(), timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            raise RpcError("LearnerService.GetState", error) from error
        return LearnerState(step=answer.step, version=answer.version, published=answer.published)
