"""Sends analyses again that nothing happens to: what makes a killed process, anywhere, harmless.

Consumes: the set of analyses under way, ordered by their last progress. Produces: messages on the queue `analyze`, and
failed analyses. Waits for nobody. If it dies, another gateway takes the lock over, or this one does when it is back.

An analysis whose message still waits in a queue is not stalled, only in line: it is sent again much later, each time
after twice as long, and never given up. Every sending makes the line longer: at even steps a long one would only grow.
One that is in no queue and makes no progress is given up after five attempts, spaced further and further. One that
waits for continuations of its caller is no business of ours for a day; then it is given up too.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from uuid import uuid4

from prover.analysis import Analysis
from prover.lifecycle import Status
from prover.queues import ANALYZE, CONTINUE
from prover.store import AnalysisStore, StoreError
from services.gateway.gateway import Queue, QueueDown
from services.gateway.pull import outstanding

_log = logging.getLogger(__name__)
_ATTEMPTS = 5
_LONGEST_PATIENCE_S = 40.0
_IN_LINE_FACTOR = 15
"""How many times longer an analysis may be idle while messages wait in a queue."""
_CALLER_LIMIT_S = 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What one look did."""

    sent: int = 0
    failed: int = 0


class Sweep:
    """One gateway at a time sweeps; the others find the lock taken."""

    def __init__(
        self,
        store: AnalysisStore,
        queue: Queue,
        *,
        idle_s: float,
        report: Callable[[Swept], None],
        caller_limit_s: float = _CALLER_LIMIT_S,
    ) -> None:
        """`caller_limit_s`: how long an analysis waits for the next outcome of a caller that plays continuations."""
        self._caller_limit_s = caller_limit_s
        self._store = store
        self._queue = queue
        self._idle_s = idle_s
        self._report = report
        self._owner = uuid4().hex

    async def run(self) -> None:
        """Looks again and again, until it is cancelled."""
        period_s = min(max(self._idle_s / 4, 0.2), 10.0)
        while True:
            await asyncio.sleep(period_s)
            try:
                if await self._store.hold_lock("sweep", owner=self._owner, ttl_s=3 * period_s + 10.0):
                    self._report(await self.once())
            except (StoreError, QueueDown) as error:
                _log.warning("the sweep could not be finished and will be tried again: %s", error)

    async def once(self) -> Swept:
        """One look at everything that is idle."""
        in_line = await self._store.waiting_messages(ANALYZE) + await self._store.waiting_messages(CONTINUE) > 0
        sent = failed = 0
        for analysis_id in await self._store.stalled(idle_s=self._idle_s, limit=1000):
            analysis = await self._store.get(analysis_id)
            if analysis is None:
                await self._store.note_attempt(analysis_id)  # takes it off the list
            elif await self._waits_for_caller(analysis):
                failed += await self._wait_on(analysis)
            elif not in_line:
                gave_up = await self._attempt(analysis)
                failed, sent = failed + gave_up, sent + (not gave_up)
            elif (age_s := time.time() - analysis.updated_at) > _IN_LINE_FACTOR * self._idle_s:
                await self._store.keep_alive(analysis_id, patience_s=age_s - self._idle_s)
                await self._queue.analyze(analysis_id)
                sent += 1
        return Swept(sent=sent, failed=failed)

    async def _waits_for_caller(self, analysis: Analysis) -> bool:
        return analysis.options.continuations == "external" and bool(await outstanding(self._store, analysis))

    async def _wait_on(self, analysis: Analysis) -> bool:
        """Lets it wait, or gives it up: True."""
        if time.time() - analysis.updated_at <= self._caller_limit_s:
            await self._store.keep_alive(analysis.id)
            return False
        wanted = ", ".join(request.request_id for request in await outstanding(self._store, analysis))
        error = (
            f"continuations: none came for {self._caller_limit_s:g} s; expected the outcomes of {wanted} at "
            f"POST /v1/analyses/{analysis.id}/outcomes. Submit the group again with a caller that plays them"
        )
        return await self._store.move(analysis.id, Status.FAILED, error=error)

    async def _attempt(self, analysis: Analysis) -> bool:
        """Sends it, or gives it up: True."""
        patience_s = min(self._idle_s * analysis.attempts, _LONGEST_PATIENCE_S)
        attempts = await self._store.note_attempt(analysis.id, patience_s=patience_s)
        if attempts <= _ATTEMPTS:
            _log.info("idle in %s; attempt %d", analysis.status.value, attempts, extra={"analysis": analysis.id})
            await self._queue.analyze(analysis.id)
            return False
        _log.error("given up in %s", analysis.status.value, extra={"analysis": analysis.id})
        return await self._store.move(analysis.id, Status.FAILED, error=_reason(analysis))


def _reason(analysis: Analysis) -> str:
    where = {
        Status.QUEUED: f"the log of the coordinator (the verifier's worker on queue {ANALYZE!r}), and whether one runs",
        Status.PROPOSING: f"the judge {analysis.options.judge!r}: its log, /readyz, and the coordinator's log",
        Status.VERIFYING: (
            f"the verifier's workers on queue {CONTINUE!r}: whether any runs, their log, and whether the policy engine "
            f"{analysis.options.policy!r} answers (/readyz)"
        ),
    }
    newer = f" It needs protocol {analysis.protocol}: older processes leave it." if analysis.protocol > 1 else ""
    return (
        f"no progress in state {analysis.status.value} after {_ATTEMPTS} attempts; look at "
        f"{where[analysis.status]}.{newer} Submit the group again once that works"
    )
