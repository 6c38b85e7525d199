"""What the gateway counts, for Prometheus. A registry of its own: nothing is shared between two gateways."""

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from prover.credit.record import mean_interval, record_delta
from services.gateway.judge_records import KeptRecord
from services.gateway.sweep import Swept


class Metrics:
    """Counters of one gateway."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "prover_gateway_requests", "Requests answered.", ["method", "route", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "prover_gateway_request_seconds", "Time to the whole answer.", ["method", "route"], registry=self._registry
        )
        self._open = Gauge("prover_gateway_open_requests", "Requests being answered.", registry=self._registry)
        self._submitted = Counter("prover_gateway_submissions", "Submissions accepted.", registry=self._registry)
        self._resent = Counter("prover_gateway_resent", "Idle analyses sent again.", registry=self._registry)
        self._given_up = Counter("prover_gateway_given_up", "Idle analyses failed.", registry=self._registry)
        self._active = Gauge("prover_gateway_active_analyses", "Analyses under way.", registry=self._registry)
        self._waiting = Gauge(
            "prover_gateway_waiting_messages", "Messages that no worker has.", ["queue"], registry=self._registry
        )
        judge = ["judge", "prompt_version", "environment", "policy"]
        self._record = Gauge(
            "prover_gateway_judge_record",
            "Shrunk mean of a judge's audited deltas: what mode audited pays by.",
            judge,
            registry=self._registry,
        )
        self._audits = Gauge(
            "prover_gateway_judge_audits", "Audits in the window of a judge's record.", judge, registry=self._registry
        )
        self._acceptance = Gauge(
            "prover_gateway_judge_acceptance",
            "Share of those audits with delta above 0.",
            judge,
            registry=self._registry,
        )
        self._mean_delta = Gauge(
            "prover_gateway_judge_mean_delta", "Mean delta of those audits.", judge, registry=self._registry
        )
        self._mean_delta_low = Gauge(
            "prover_gateway_judge_mean_delta_low",
            "Lower end of the 90% interval of that mean.",
            judge,
            registry=self._registry,
        )

    def submitted(self) -> None:
        """One submission was accepted."""
        self._submitted.inc()

    def swept(self, swept: Swept) -> None:
        """What one look of the sweep did."""
        self._resent.inc(swept.sent)
        self._given_up.inc(swept.failed)

    def load(self, *, active: float, waiting: Mapping[str, float]) -> None:
        """Analyses under way, and messages by queue; NaN where nobody knows."""
        self._active.set(active)
        for queue, count in waiting.items():
            self._waiting.labels(queue).set(count)

    def judges(self, records: Sequence[KeptRecord]) -> None:
        """The judges' records that are in use; others are told of no more."""
        for gauge in (self._record, self._audits, self._acceptance, self._mean_delta, self._mean_delta_low):
            gauge.clear()
        for one in records:
            labels = (one.key.judge, one.key.prompt_version, one.key.environment, one.key.policy)
            self._record.labels(*labels).set(record_delta(one.deltas))
            self._audits.labels(*labels).set(len(one.audits))
            if one.deltas:
                self._acceptance.labels(*labels).set(fmean(delta > 0 for delta in one.deltas))
                self._mean_delta.labels(*labels).set(fmean(one.deltas))
                self._mean_delta_low.labels(*labels).set(mean_interval(one.deltas)[0])

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self._registry)

    @property
    def middleware(self) -> Callable[[ASGIApp], ASGIApp]:
        """Measures every request by its route, never by its path: ids would make endless labels."""

        def wrap(app: ASGIApp) -> ASGIApp:
            async def measured(scope: Scope, receive: Receive, send: Send) -> None:
                if scope["type"] != "http":
                    await app(scope, receive, send)
                    return
                await self._measure(app, scope, receive, send)

            return measured

        return wrap

    async def _measure(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        started, status = time.perf_counter(), 500

        async def note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        self._open.inc()
        try:
            await app(scope, receive, note_status)
        finally:
            self._open.dec()
            route = getattr(scope.get("route"), "path", "unknown")
            self._requests.labels(scope["method"], route, str(status)).inc()
            self._seconds.labels(scope["method"], route).observe(time.perf_counter() - started)
