"""`RolloutService` on the wire: decode, call, encode.

Statuses: INVALID_ARGUMENT for what cannot be sampled, ABORTED where every attempt failed, FAILED_PRECONDITION where the
policy engine does not answer or does not take new weights (it has been asked several times by then, so the channel is
not told to try again).
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any

import grpc

from prover.policies.policy import PolicyError
from prover.policies.publish import PublishFailed
from prover.rpc import convert
from prover.rpc.servers import Register
from prover.rpc.v1 import rollout_pb2, rollout_pb2_grpc
from prover.trajectory import FailedAttempt
from services.rollout.rollout import GroupFailed, GroupOrder, InvalidRequest, Rollout

_Context = grpc.aio.ServicerContext[Any, Any]


def rollout_service(rollout: Rollout) -> Register:
    """Adds `RolloutService` to a server."""

    def register(server: grpc.aio.Server) -> str:
        rollout_pb2_grpc.add_RolloutServiceServicer_to_server(_Servicer(rollout), server)
        return rollout_pb2.DESCRIPTOR.services_by_name["RolloutService"].full_name

    return register


class _Servicer(rollout_pb2_grpc.RolloutServiceServicer):
    def __init__(self, rollout: Rollout) -> None:
        self._rollout = rollout

    async def SampleGroup(
        self, request: rollout_pb2.SampleGroupRequest, context: _Context
    ) -> AsyncIterator[rollout_pb2.SampleGroupResponse]:
        async with _statuses(context):
            order = _decode(lambda: _order(request, size=request.group_size))
            async with aclosing(self._rollout.sample_group(order)) as attempts:
                async for attempt in attempts:
                    yield convert.attempt_to_wire(attempt)

    async def SampleTrajectory(
        self, request: rollout_pb2.SampleTrajectoryRequest, context: _Context
    ) -> rollout_pb2.SampleTrajectoryResponse:
        answer = rollout_pb2.SampleTrajectoryResponse()
        async with _statuses(context):
            order = _decode(lambda: _order(request, size=1))
            async with aclosing(self._rollout.sample_group(order)) as attempts:
                async for attempt in attempts:
                    if not isinstance(attempt, FailedAttempt):
                        answer.trajectory.CopyFrom(convert.trajectory_to_wire(attempt))
        return answer

    async def GetPolicy(
        self, request: rollout_pb2.GetPolicyRequest, context: _Context
    ) -> rollout_pb2.GetPolicyResponse:
        answer = rollout_pb2.GetPolicyResponse()
        async with _statuses(context):
            answer.policy.CopyFrom(convert.policy_to_wire(await self._rollout.policy()))
        return answer

    async def SetPolicy(
        self, request: rollout_pb2.SetPolicyRequest, context: _Context
    ) -> rollout_pb2.SetPolicyResponse:
        answer = rollout_pb2.SetPolicyResponse()
        async with _statuses(context):
            answer.policy.CopyFrom(convert.policy_to_wire(await self._rollout.set_policy(request.weights_path)))
        return answer


def _order(request: rollout_pb2.SampleGroupRequest | rollout_pb2.SampleTrajectoryRequest, *, size: int) -> GroupOrder:
    sampling = convert.sampling_from_wire(request.sampling)
    return GroupOrder(
        task=convert.task_from_wire(request.task),
        size=size,
        max_turns=request.max_turns,
        agent=request.agent,
        sampling=replace(sampling, seed=request.seed if request.HasField("seed") else None),
    )


def _decode(read: Callable[[], GroupOrder]) -> GroupOrder:
    try:
        return read()
    except ValueError as error:
        raise InvalidRequest(str(error)) from error


@asynccontextmanager
async def _statuses(context: _Context) -> AsyncGenerator[None]:
    try:
        yield
    except InvalidRequest as error:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
    except GroupFailed as error:
        await context.abort(grpc.StatusCode.ABORTED, str(error))
    except (PolicyError, PublishFailed) as error:
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
