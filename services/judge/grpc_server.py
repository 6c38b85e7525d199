"""`JudgeService` on the wire: decode, call, encode.

Statuses: INVALID_ARGUMENT for a judge that is not to be had and for a group that cannot be judged. A judge that finds
nothing, or whose model does not answer, is no error: the response says why there is no proposal.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

import grpc

from prover.rpc import convert
from prover.rpc.servers import Register, about_call
from prover.rpc.v1 import judge_pb2, judge_pb2_grpc
from prover.trajectory import Judgement
from services.judge.question import Judge, ProposeLimits

_log = logging.getLogger("judge")

_Context = grpc.aio.ServicerContext[Any, Any]
_MARGIN = 0.8
"""The share of the caller's deadline that a judge may use: the answer has to get back in time."""


def judge_service(
    judges: Mapping[str, Judge],
    *,
    judged: Callable[[Judgement], None],
    limits: ProposeLimits | None = None,
    executor: Executor | None = None,
) -> Register:
    """Adds `JudgeService` with these judges to a server.

    `judged` hears of every judgement. `limits` hold for every request, which may ask for less time but not for more;
    None is `ProposeLimits()`. `executor` decodes the groups, which may be long; None is the event loop's own.
    """

    servicer = _Servicer(judges, judged, limits or ProposeLimits(), executor)

    def register(server: grpc.aio.Server) -> str:
        judge_pb2_grpc.add_JudgeServiceServicer_to_server(servicer, server)
        return judge_pb2.DESCRIPTOR.services_by_name["JudgeService"].full_name

    return register


class _Servicer(judge_pb2_grpc.JudgeServiceServicer):
    def __init__(
        self,
        judges: Mapping[str, Judge],
        judged: Callable[[Judgement], None],
        limits: ProposeLimits,
        executor: Executor | None,
    ) -> None:
        self._judges, self._judged, self._limits, self._executor = judges, judged, limits, executor

    async def Propose(self, request: judge_pb2.ProposeRequest, context: _Context) -> judge_pb2.ProposeResponse:
        with about_call(context.invocation_metadata()):
            return await self._propose(request, context)

    async def _propose(self, request: judge_pb2.ProposeRequest, context: _Context) -> judge_pb2.ProposeResponse:
        answer = judge_pb2.ProposeResponse()
        try:
            if request.judge not in self._judges:
                raise ValueError(f"judge: was {request.judge!r}; expected one of {', '.join(sorted(self._judges))}")
            loop = asyncio.get_running_loop()
            group = await loop.run_in_executor(self._executor, convert.group_from_wire, request.group)
            limits = _limits(self._limits, request, context.time_remaining())
            judgement = await self._judges[request.judge].propose(group, limits)
            self._judged(judgement)
            _log.info("judged", extra={"judge": request.judge, "proposals": len(judgement.proposals)})
            answer = convert.judgement_to_wire(judgement)
        except ValueError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        return answer

    async def ListJudges(self, request: judge_pb2.ListJudgesRequest, context: _Context) -> judge_pb2.ListJudgesResponse:
        return judge_pb2.ListJudgesResponse(judges=sorted(self._judges))


def _limits(allowed: ProposeLimits, request: judge_pb2.ProposeRequest, remaining_s: float | None) -> ProposeLimits:
    """What the service allows, within the caller's deadline."""
    longest_s = allowed.timeout_s
    if remaining_s is not None:
        longest_s = min(longest_s, max(_MARGIN * remaining_s, 0.01))
    return replace(
        allowed,
        max_proposals=request.max_proposals or 1,
        max_mistakes=request.max_mistakes,
        seed=request.seed,
        timeout_s=longest_s,
    )
