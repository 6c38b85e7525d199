"""`LearnerService` on the wire: decode, call, encode.

Statuses: INVALID_ARGUMENT for a batch or turns that cannot be used, FAILED_PRECONDITION for a step that was refused
or a publish that failed, RESOURCE_EXHAUSTED where too many calls wait or a disk is full. The learner's present state
can be asked for after each of them.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc

from prover.policies.publish import PublishFailed
from prover.rpc import convert
from prover.rpc.servers import Register
from prover.rpc.v1 import learner_pb2, learner_pb2_grpc
from prover.trajectory import CreditedTrajectory
from services.learner.folders import WriteFailed
from services.learner.learner import StepRefused
from services.learner.serial import LearnerBusy, SerialLearner

MAX_TRAJECTORIES = 4096
"""Of one batch: it is held in memory until the step is done."""

_Context = grpc.aio.ServicerContext[Any, Any]


def learner_service(learner: SerialLearner) -> Register:
    """Adds `LearnerService` to a server."""

    def register(server: grpc.aio.Server) -> str:
        learner_pb2_grpc.add_LearnerServiceServicer_to_server(_Servicer(learner), server)
        return learner_pb2.DESCRIPTOR.services_by_name["LearnerService"].full_name

    return register


class _Servicer(learner_pb2_grpc.LearnerServiceServicer):
    def __init__(self, learner: SerialLearner) -> None:
        self._learner = learner

    async def Step(
        self, request_iterator: AsyncIterator[learner_pb2.StepRequest], context: _Context
    ) -> learner_pb2.StepResponse:
        answer = learner_pb2.StepResponse()
        async with _statuses(context):
            batch, after_step = await _read_batch(request_iterator)
            answer = convert.step_metrics_to_wire(await self._learner.step(batch, after_step=after_step))
        return answer

    async def Publish(self, request: learner_pb2.PublishRequest, context: _Context) -> learner_pb2.PublishResponse:
        answer = learner_pb2.PublishResponse()
        async with _statuses(context):
            published = await self._learner.publish()
            answer.version = published.version
            answer.weights_path = published.weights_path
            answer.probe_difference = published.probe_difference
        return answer

    async def Score(self, request: learner_pb2.ScoreRequest, context: _Context) -> learner_pb2.ScoreResponse:
        answer = learner_pb2.ScoreResponse()
        async with _statuses(context):
            turns = [convert.turn_from_wire(turn) for turn in request.turns]
            for logprobs in await self._learner.score(turns):
                answer.logprobs.add().values.extend(logprobs)
        return answer

    async def GetState(self, request: learner_pb2.GetStateRequest, context: _Context) -> learner_pb2.GetStateResponse:
        state = await self._learner.state()
        return learner_pb2.GetStateResponse(step=state.step, version=state.version, published=state.published)


async def _read_batch(
    requests: AsyncIterator[learner_pb2.StepRequest],
) -> tuple[list[CreditedTrajectory], int | None]:
    batch: list[CreditedTrajectory] = []
    after_step: int | None = None
    async for request in requests:
        if not batch and request.HasField("after_step"):
            after_step = request.after_step
        if len(batch) == MAX_TRAJECTORIES:
            raise ValueError(f"batch: more than {MAX_TRAJECTORIES} trajectories; expected at most that many")
        batch.append(convert.credited_from_wire(request.credited))
    return batch, after_step


@asynccontextmanager
async def _statuses(context: _Context) -> AsyncGenerator[None]:
    try:
        yield
    except ValueError as error:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
    except (StepRefused, PublishFailed) as error:
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
    except (LearnerBusy, WriteFailed) as error:
        await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
