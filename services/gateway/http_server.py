"""The REST face: decode, call, encode."""

import re
from typing import Annotated

from fastapi import FastAPI, Header, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from prover.boundaries import boundaries
from prover.queues import ANALYZE, CONTINUE
from prover.store import StoreError
from services.gateway import answers, continuation_answers, problems, record_answers
from services.gateway.body import read_json_body
from services.gateway.errors import answer_errors
from services.gateway.kept import kept_continuations
from services.gateway.live import ended_and_read
from services.gateway.openapi import DESCRIPTION, OUTCOMES_BODY, SUBMISSION_BODY, describe
from services.gateway.page import serve_page
from services.gateway.parts import Parts

MAX_WAIT_S = 60.0
_EVENT_ID = re.compile(r"\d{1,20}(-\d{1,20})?")
_KEY = re.compile(r"[\x21-\x7e]{1,200}")

_Wait = Annotated[float, Query(ge=0, description=f"Seconds to wait for the end; at most {MAX_WAIT_S:.0f} are waited.")]


def create_app(parts: Parts) -> FastAPI:
    """The application; it starts nothing."""
    app = FastAPI(title="ProVer", version="1", description=DESCRIPTION, docs_url="/docs", redoc_url=None)
    app.add_middleware(parts.metrics.middleware)
    answer_errors(app)
    _write_routes(app, parts)
    _read_routes(app, parts)
    _judge_routes(app, parts)
    _live_routes(app, parts)
    _pull_routes(app, parts)
    _operation_routes(app, parts)
    serve_page(app)
    describe(app)
    return app


def _write_routes(app: FastAPI, parts: Parts) -> None:
    gateway = parts.gateway

    @app.post("/v1/analyses", status_code=202, openapi_extra={"requestBody": SUBMISSION_BODY}, tags=["analyses"])
    async def submit(
        request: Request,
        response: Response,
        idempotency_key: Annotated[str | None, Header(description="Makes the request safe to repeat.")] = None,
    ) -> answers.Accepted:
        """Takes a group in; the answer comes at once, the analysis later."""
        if idempotency_key is not None and not _KEY.fullmatch(idempotency_key):
            raise problems.invalid_parameter("Idempotency-Key", idempotency_key, "1 to 200 printable characters")
        body = await read_json_body(request, limit=parts.max_body_bytes)
        analysis_id = await gateway.submit(body, key=idempotency_key)
        analysis = await gateway.get(analysis_id)
        parts.metrics.submitted()
        response.headers["Location"] = f"/v1/analyses/{analysis_id}"
        return answers.Accepted(id=analysis_id, status=analysis.status.value)

    @app.post("/v1/analyses/{analysis_id}/cancel", tags=["analyses"])
    async def cancel(analysis_id: str) -> answers.SummaryOut:
        """Stops an analysis. Cancelling twice is fine; one that has ended answers 409."""
        return answers.summary_out(await gateway.cancel(analysis_id))

    @app.delete("/v1/analyses/{analysis_id}", status_code=204, tags=["analyses"])
    async def delete(analysis_id: str) -> Response:
        """Removes an analysis and everything that belongs to it, whatever its state."""
        await gateway.delete(analysis_id)
        return Response(status_code=204)


def _read_routes(app: FastAPI, parts: Parts) -> None:
    gateway = parts.gateway

    @app.get("/v1/analyses", tags=["analyses"])
    async def recent(
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
        before: Annotated[float | None, Query(description="`next` of the page before.", allow_inf_nan=False)] = None,
    ) -> answers.ListOut:
        """Analyses, newest first."""
        found = await gateway.store.recent(limit=limit, before=before)
        following = repr(found[-1].created_at) if len(found) == limit else None
        return answers.ListOut(analyses=[answers.summary_out(analysis) for analysis in found], next=following)

    @app.get("/v1/analyses/{analysis_id}/advantages", tags=["analyses"], response_model=answers.AdvantagesOut)
    async def advantages(analysis_id: str) -> Response:
        """The advantages per trajectory, per turn and per sampled token. 409 before the analysis has ended."""
        credit = await gateway.advantages(analysis_id)
        return Response(answers.advantages_out(credit).model_dump_json(), media_type="application/json")

    @app.get(
        "/v1/analyses/{analysis_id}/continuations",
        tags=["analyses"],
        response_model=continuation_answers.ContinuationsOut,
    )
    async def continuations(analysis_id: str) -> Response:
        """The continuations as trajectories, each with its advantage among its siblings. 409 where none are kept."""
        kept = await kept_continuations(gateway, analysis_id)
        return Response(continuation_answers.continuations_out(kept).model_dump_json(), media_type="application/json")

    @app.get("/v1/policy", tags=["policy"])
    async def policy(
        policy: Annotated[str | None, Query(description="An engine's name; absent: the default one.")] = None,
    ) -> answers.PolicyOut:
        """The model and version that continuations run on now."""
        info = await gateway.policy(policy)
        return answers.PolicyOut(model=info.model, version=info.version)


def _judge_routes(app: FastAPI, parts: Parts) -> None:
    @app.get("/v1/judges/{judge}/record", tags=["judges"])
    async def record(judge: str) -> record_answers.JudgeRecordOut:
        """What audits have said of a judge, and so what the mode `audited` pays its next proposal."""
        return record_answers.judge_record_out(judge, await parts.records.of(judge))


def _live_routes(app: FastAPI, parts: Parts) -> None:
    gateway, open_requests = parts.gateway, parts.open_requests

    @app.get("/v1/analyses/{analysis_id}", tags=["analyses"])
    async def get(analysis_id: str, wait: _Wait = 0.0) -> answers.AnalysisOut:
        """An analysis as it stands; with `wait`, once it has ended or that time is over."""
        analysis = await gateway.get(analysis_id)
        if wait > 0:
            open_requests.admit()
            waited = await open_requests.run(gateway.get(analysis_id, wait_s=min(wait, MAX_WAIT_S)))
            analysis = waited or analysis
        proposals = analysis.judgement.proposals if analysis.judgement else ()
        named = boundaries([proposal.segment for proposal in proposals])
        return answers.analysis_out(analysis, [await gateway.store.count(analysis_id, side) for side in named])

    @app.get(
        "/v1/analyses/{analysis_id}/events",
        tags=["analyses"],
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {}}}, 204: {"description": "Ended; nothing is left."}},
    )
    async def events(
        analysis_id: str,
        last_event_id: Annotated[str | None, Header(description="Goes on after this event.")] = None,
    ) -> Response:
        """Every transition and outcome as server-sent events, from the first one on; ends with the analysis."""
        after = last_event_id or "0"
        if not _EVENT_ID.fullmatch(after):
            raise problems.invalid_parameter("Last-Event-ID", after, "the id of an event, such as 1700000000000-0")
        await gateway.get(analysis_id)
        if await ended_and_read(gateway.store, analysis_id, after=after):
            return Response(status_code=204)
        open_requests.admit()
        return StreamingResponse(
            open_requests.stream(gateway.store, analysis_id, after=after),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )


def _pull_routes(app: FastAPI, parts: Parts) -> None:
    pull, open_requests = parts.pull, parts.open_requests

    @app.get("/v1/analyses/{analysis_id}/requests", tags=["pull mode"])
    async def requests(analysis_id: str, wait: _Wait = 0.0) -> continuation_answers.RequestsOut:
        """Continuations that the caller is asked for; with `wait`, once there are some, the analysis has ended, or that
        time is over."""
        found = await pull.requests(analysis_id)
        if wait > 0:
            open_requests.admit()
            found = await open_requests.run(pull.requests(analysis_id, wait_s=min(wait, MAX_WAIT_S))) or found
        return continuation_answers.requests_out(*found)

    @app.post("/v1/analyses/{analysis_id}/outcomes", openapi_extra={"requestBody": OUTCOMES_BODY}, tags=["pull mode"])
    async def outcomes(analysis_id: str, request: Request) -> continuation_answers.TakenOut:
        """Takes outcomes of the caller's continuations, in any order; twice is harmless."""
        body = await read_json_body(request, limit=parts.max_body_bytes)
        accepted, duplicates = await pull.take(analysis_id, body)
        return continuation_answers.TakenOut(accepted=accepted, duplicates=duplicates)


def _operation_routes(app: FastAPI, parts: Parts) -> None:
    @app.get("/healthz", tags=["operation"])
    async def healthz() -> dict[str, str]:
        """The process is up."""
        return {"status": "ok"}

    @app.get("/readyz", tags=["operation"], responses={503: {"model": answers.ReadyOut}})
    async def readyz() -> JSONResponse:
        """Everything that an analysis needs answers; 503 says what does not."""
        found = await parts.ready()
        ready = not any(found.values())
        answer = answers.ReadyOut(ready=ready, dependencies={name: wrong or "ok" for name, wrong in found.items()})
        return JSONResponse(answer.model_dump(), status_code=200 if ready else 503)

    @app.get("/metrics", tags=["operation"], include_in_schema=False)
    async def metrics() -> Response:
        """Prometheus' text format."""
        store, nobody_knows = parts.gateway.store, float("nan")
        try:
            waiting = {queue: float(await store.waiting_messages(queue)) for queue in (ANALYZE, CONTINUE)}
            parts.metrics.load(active=await store.active(), waiting=waiting)
            parts.metrics.judges(await parts.records.in_use())
        except StoreError:
            parts.metrics.load(active=nobody_knows, waiting=dict.fromkeys((ANALYZE, CONTINUE), nobody_knows))
        return Response(parts.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")
