"""Every error leaves as a problem document, also those that the framework raises."""

import logging

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from prover.store import StoreError
from services.gateway.problems import MEDIA_TYPE, Mistake, Problem, shown, unavailable

_log = logging.getLogger(__name__)


def answer_errors(app: FastAPI) -> None:
    """Registers the handlers."""

    @app.exception_handler(Problem)
    async def on_problem(_: Request, problem: Problem) -> JSONResponse:
        return _answer(problem)

    @app.exception_handler(StoreError)
    async def on_store_error(_: Request, error: StoreError) -> JSONResponse:
        _log.warning("Redis does not answer: %s", error)
        return _answer(unavailable("Redis", str(error)))

    @app.exception_handler(RequestValidationError)
    async def on_parameter(_: Request, error: RequestValidationError) -> JSONResponse:
        mistakes = [
            Mistake(
                field=str(finding["loc"][-1]),
                was=shown(finding.get("input")),
                expected=str(finding["msg"]).removeprefix("Input should be "),
            )
            for finding in error.errors()
        ]
        return _answer(Problem(400, "invalid-parameter", "A parameter cannot be used", mistakes=mistakes))

    @app.exception_handler(HTTPException)
    async def on_http(request: Request, error: HTTPException) -> JSONResponse:
        mistake = Mistake(field="path", was=f"{request.method} {request.url.path}", expected="a route of /openapi.json")
        answer = _answer(Problem(error.status_code, "no-such-route", str(error.detail), mistakes=[mistake]))
        answer.headers.update(error.headers or {})
        return answer

    @app.exception_handler(Exception)
    async def on_bug(request: Request, error: Exception) -> JSONResponse:
        detail = f"{request.method} {request.url.path} failed with {type(error).__name__}; the gateway's log has it all"
        return _answer(Problem(500, "bug", "This is a mistake of ours", detail=detail))


def _answer(problem: Problem) -> JSONResponse:
    headers = {} if problem.retry_after_s is None else {"Retry-After": str(problem.retry_after_s)}
    return JSONResponse(problem.document(), status_code=problem.status, media_type=MEDIA_TYPE, headers=headers)
