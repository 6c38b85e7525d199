"""Pull mode: continuations that the caller plays, in an environment that only the caller has.

A request is one boundary's share of a round: "r2-before" asks for what round 2 wants more of the state before the
segment, "r2-before-3" of that before the third one. The same question has the same answer while the round lasts,
whoever asks and however often; `sample` counts from 0 within it. Outcomes are recorded as those of a worker would be,
the first one for good, and the outcome that completes a round sends the decision. Where that message is lost, the sweep
sends the analysis again.
"""

import logging
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pydantic import ValidationError

from prover.analysis import Analysis
from prover.boundaries import SIDE
from prover.lifecycle import END_STATES, Status
from prover.store import AnalysisStore
from prover.trajectory import Boundary, Outcome
from services.gateway import problems
from services.gateway.gateway import Gateway, QueueDown
from services.gateway.models import OutcomeIn, OutcomesIn
from services.gateway.problems import Mistake, Problem, shown

_log = logging.getLogger(__name__)
_ID = re.compile(rf"r([1-9]\d{{0,8}})-(?:{SIDE.pattern})")
_LOOK_EVERY_S = 0.25
"""A new round makes no event: who waits for one looks so often."""


class Decisions(Protocol):
    """Where it is said that a round is complete."""

    async def decide(self, analysis_id: str, number: int) -> None:
        """Sends it. QueueDown where the broker does not take it; sending twice is harmless."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Continuations that are wanted of one boundary: samples `first` to `first + samples - 1` of the analysis."""

    request_id: str
    side: str
    boundary: Boundary
    first: int
    samples: int


class Pull:
    """Hands out requests and takes outcomes in."""

    def __init__(self, gateway: Gateway, decisions: Decisions) -> None:
        self._gateway = gateway
        self._store = gateway.store
        self._decisions = decisions

    async def requests(self, analysis_id: str, *, wait_s: float = 0.0) -> tuple[Status, tuple[Request, ...]]:
        """The status and the requests that still lack outcomes; with `wait_s`, once there are some, or at the end.

        Problem 404; 409 where the service plays the continuations itself.
        """
        deadline = time.monotonic() + wait_s
        last = "0"
        while True:
            analysis = await self._external(analysis_id)
            found = await outstanding(self._store, analysis)
            left_s = deadline - time.monotonic()
            if found or analysis.status in END_STATES or left_s <= 0:
                return analysis.status, found
            events = await self._store.events(analysis_id, after=last, wait_s=min(left_s, _LOOK_EVERY_S))
            last = events[-1].id if events else last

    async def take(self, analysis_id: str, body: bytes) -> tuple[int, int]:
        """Records outcomes; answers how many were new and how many changed nothing.

        All of them are checked before the first is recorded. Those of earlier rounds and of an analysis that has ended
        change nothing. Problem 404, 409, 400 or 422.
        """
        analysis = await self._external(analysis_id)
        outcomes = _parse(body)
        wanted = {request.request_id: request for request in asked(analysis)}
        found = [mistake for at, outcome in enumerate(outcomes) for mistake in _mistakes(at, outcome, analysis, wanted)]
        if found:
            raise _refused(found)
        accepted = 0
        for given in outcomes:
            request = wanted.get(given.request_id)
            if request is not None:
                accepted += await self._store.record_outcome(
                    analysis_id,
                    side=request.side,
                    sample=request.first + given.sample,
                    outcome=Outcome(success=given.success, reward=given.reward, tokens=given.tokens),
                )
        await self._close_round(analysis_id)
        return accepted, len(outcomes) - accepted

    async def _close_round(self, analysis_id: str) -> None:
        """Also where nothing was new: who sent the last outcome may have died before this."""
        analysis = await self._store.get(analysis_id)
        if analysis is None or analysis.status is not Status.VERIFYING or analysis.round is None:
            return
        if await outstanding(self._store, analysis):
            return
        try:
            await self._decisions.decide(analysis_id, analysis.round.number)
        except QueueDown:
            _log.warning("complete but not sent on", extra={"analysis": analysis_id, "round": analysis.round.number})

    async def _external(self, analysis_id: str) -> Analysis:
        analysis = await self._gateway.get(analysis_id)
        if analysis.options.continuations != "external":
            mistake = Mistake(
                field="options.continuations",
                was=shown(analysis.options.continuations),
                expected="'external': the service plays the continuations of this analysis itself",
            )
            raise Problem(409, "not-external", "Nobody is asked for continuations here", mistakes=[mistake])
        return analysis


def asked(analysis: Analysis) -> tuple[Request, ...]:
    """The requests of the present round, or of the last one where the analysis has ended."""
    if analysis.round is None:
        return ()
    return tuple(
        Request(
            request_id=f"r{analysis.round.number}-{share.side}",
            side=share.side,
            boundary=share.boundary,
            first=share.first,
            samples=share.total - share.first,
        )
        for share in analysis.round.shares
        if share.total > share.first
    )


async def outstanding(store: AnalysisStore, analysis: Analysis) -> tuple[Request, ...]:
    """Those that lack an outcome; none where the analysis is not being verified."""
    if analysis.status is not Status.VERIFYING:
        return ()
    found: list[Request] = []
    for request in asked(analysis):
        known = await store.outcomes(analysis.id, request.side)
        if any(sample not in known for sample in range(request.first, request.first + request.samples)):
            found.append(request)
    return tuple(found)


def _parse(body: bytes) -> Sequence[OutcomeIn]:
    try:
        return OutcomesIn.model_validate_json(body).outcomes
    except ValidationError as error:
        raise problems.from_validation(error, refuse=_refused) from error


def _refused(mistakes: Sequence[Mistake]) -> Problem:
    return Problem(422, "invalid-outcomes", "The outcomes cannot be taken; none of them was", mistakes=mistakes)


def _mistakes(at: int, given: OutcomeIn, analysis: Analysis, wanted: Mapping[str, Request]) -> Iterator[Mistake]:
    where = f"outcomes[{at}]"
    request = wanted.get(given.request_id)
    if request is None and not _earlier(given.request_id, analysis):
        expected = f"a request_id that GET /v1/analyses/{analysis.id}/requests has answered, such as 'r1-before'"
        yield Mistake(field=f"{where}.request_id", was=shown(given.request_id), expected=expected)
    if request is not None and given.sample >= request.samples:
        expected = f"0 to {request.samples - 1}: {request.request_id} asks for {request.samples} samples"
        yield Mistake(field=f"{where}.sample", was=shown(given.sample), expected=expected)
    least, greatest = analysis.options.reward_range
    if not least <= given.reward <= greatest:
        expected = f"a number from {least} to {greatest} (reward_range)"
        yield Mistake(field=f"{where}.reward", was=shown(given.reward), expected=expected)
    elif given.success and given.reward == least:
        expected = f"more than {least}, the least of reward_range, since success is true"
        yield Mistake(field=f"{where}.reward", was=shown(given.reward), expected=expected)
    elif not given.success and given.reward == greatest:
        expected = f"less than {greatest}, the greatest of reward_range, since success is false"
        yield Mistake(field=f"{where}.reward", was=shown(given.reward), expected=expected)


def _earlier(request_id: str, analysis: Analysis) -> bool:
    """Of a round that is over: every outcome of it is in."""
    found = _ID.fullmatch(request_id)
    return found is not None and analysis.round is not None and int(found[1]) < analysis.round.number
