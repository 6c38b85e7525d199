"""The OpenAPI document: FastAPI's, with the body that is read by hand, and with problem documents for every error."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from services.gateway.answers import ProblemOut
from services.gateway.examples import OUTCOMES_EXAMPLE, PROBLEM_EXAMPLE, SUBMISSION_EXAMPLE
from services.gateway.models import OutcomesIn, Submission
from services.gateway.problems import MEDIA_TYPE

DESCRIPTION = (
    "Verified credit for agentic reinforcement learning: hand in a group of trajectories of one task, take back the "
    "advantage of every sampled token, with the evidence for it. Errors are problem documents (RFC 9457)."
)
SUBMISSION_BODY: dict[str, Any] = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {"$ref": "#/components/schemas/Submission"},
            "examples": {"household": {"summary": "Two runs of one task", "value": SUBMISSION_EXAMPLE}},
        }
    },
}
OUTCOMES_BODY: dict[str, Any] = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {"$ref": "#/components/schemas/OutcomesIn"},
            "examples": {"pair": {"summary": "One continuation of each boundary", "value": OUTCOMES_EXAMPLE}},
        }
    },
}
_TEMPLATE = "#/components/schemas/{model}"
_ERRORS = {
    "/v1/analyses post": {
        "400": "Not JSON",
        "413": "Too large",
        "415": "Not application/json",
        "422": "No analysis can be made of it, or the Idempotency-Key stands for another body",
        "429": "Too many analyses are under way",
        "503": "Redis or the policy engine does not answer",
    },
    "/v1/analyses/{analysis_id}/advantages get": {"404": "No such analysis", "409": "Not ended, or ended without"},
    "/v1/analyses/{analysis_id}/continuations get": {"404": "No such analysis", "409": "Not ended, or not kept"},
    "/v1/analyses/{analysis_id}/cancel post": {"404": "No such analysis", "409": "Ended already"},
    "/v1/analyses/{analysis_id} delete": {"404": "No such analysis"},
    "/v1/analyses/{analysis_id} get": {"400": "A parameter cannot be used", "404": "No such analysis"},
    "/v1/analyses/{analysis_id}/events get": {"400": "A parameter cannot be used", "404": "No such analysis"},
    "/v1/analyses/{analysis_id}/requests get": {
        "400": "A parameter cannot be used",
        "404": "No such analysis",
        "409": "The service plays the continuations itself",
    },
    "/v1/analyses/{analysis_id}/outcomes post": {
        "400": "Not JSON",
        "404": "No such analysis",
        "409": "The service plays the continuations itself",
        "413": "Too large",
        "415": "Not application/json",
        "422": "An outcome cannot be taken; none was",
    },
    "/v1/analyses get": {"400": "A parameter cannot be used"},
    "/v1/judges/{judge}/record get": {
        "404": "No such judge",
        "503": "Redis does not answer, or the judge service where no record is kept",
    },
    "/v1/policy get": {"400": "A parameter cannot be used", "503": "The policy engine does not answer"},
}


def describe(app: FastAPI) -> None:
    """Has the application answer /openapi.json with the document."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = document


def _document(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    schemas: dict[str, Any] = document.setdefault("components", {}).setdefault("schemas", {})
    for model in (Submission, OutcomesIn, ProblemOut):
        schema = model.model_json_schema(ref_template=_TEMPLATE)
        schemas.update(schema.pop("$defs", {}))
        schemas[model.__name__] = schema
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            operation["responses"].pop("422", None)
            for status, meaning in _ERRORS.get(f"{path} {method}", {}).items():
                operation["responses"][status] = _problem(meaning)
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    return document


def _problem(meaning: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/ProblemOut"}
    return {"description": meaning, "content": {MEDIA_TYPE: {"schema": schema, "example": PROBLEM_EXAMPLE}}}
