"""Logs as lines of JSON that name their analysis; traces across REST, Celery and gRPC. For the `__main__` files.

Traces go out by OTLP where OTEL_EXPORTER_OTLP_ENDPOINT says where to, and need `pip install 'prover[otel]'`; without
that variable nothing is imported, patched or sent. The other OTEL_ variables mean what OpenTelemetry says they mean.
"""

import json
import logging
import os
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec
from typing import Any

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_analysis: ContextVar[str | None] = ContextVar("analysis", default=None)

_INSTRUMENTED: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "celery": ("opentelemetry.instrumentation.celery", ("CeleryInstrumentor",)),
    "grpc": ("opentelemetry.instrumentation.grpc", ("GrpcAioInstrumentorClient", "GrpcAioInstrumentorServer")),
}
"""Library -> what traces it, for the libraries that a process has."""


class JsonLines(logging.Formatter):
    """time, level, service, logger, message, its analysis, its trace, and whatever was given as `extra`."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "service": self._service,
            "logger": record.name,
            "message": record.getMessage(),
        }
        about = _analysis.get()
        if about is not None:
            line["analysis"] = about
        trace_id = _trace_id()
        if trace_id is not None:
            line["trace"] = trace_id
        line.update({name: value for name, value in vars(record).items() if name not in _STANDARD})
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def log_as_json(service: str, *, level: str = "INFO") -> None:
    """To standard error: `service`'s own loggers from `level` up, libraries from WARNING up."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines(service))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.captureWarnings(True)
    for name in (service, f"services.{service}", "prover"):
        logging.getLogger(name).setLevel(level)


@contextmanager
def about(analysis_id: str) -> Generator[None]:
    """Every line that is logged in the block, by whomever, names this analysis."""
    token = _analysis.set(analysis_id)
    try:
        yield
    finally:
        _analysis.reset(token)


def analysis() -> str | None:
    """The analysis that `about` named."""
    return _analysis.get()


def start_tracing(service: str) -> Callable[[], None]:
    """Traces this process. Comes before it makes channels, servers or Celery apps.

    Answers what sends the last spans, to be called at the end. Does nothing where no address is set.

    Raises:
        RuntimeError: an address is set and OpenTelemetry is not installed.
    """
    if not _wanted():
        return _nothing
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
        raise RuntimeError(f"{_ENDPOINTS[0]} is set, but OpenTelemetry is not installed; pip install 'prover[otel]'")
    # Untyped from here on: the packages are optional, so their types are not there for everybody.
    trace: Any = import_module("opentelemetry.trace")
    sdk: Any = import_module("opentelemetry.sdk.trace")
    export: Any = import_module("opentelemetry.sdk.trace.export")
    otlp: Any = import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    resources: Any = import_module("opentelemetry.sdk.resources")
    resource = resources.Resource.create({"service.name": f"prover-{service}"})
    provider = sdk.TracerProvider(resource=resource)
    provider.add_span_processor(export.BatchSpanProcessor(otlp.OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    for library, (module, names) in _INSTRUMENTED.items():
        if find_spec(library) is not None:
            instrumentation: Any = import_module(module)
            for name in names:
                getattr(instrumentation, name)().instrument(tracer_provider=provider)
    return provider.shutdown


def trace_app(app: object) -> None:
    """Traces the requests of a FastAPI application, after `start_tracing`."""
    if _wanted():
        fastapi: Any = import_module("opentelemetry.instrumentation.fastapi")
        fastapi.FastAPIInstrumentor.instrument_app(app)


def _trace_id() -> str | None:
    """The present trace in hexadecimal digits; None where nothing is traced."""
    trace: Any = sys.modules.get("opentelemetry.trace")
    context = None if trace is None else trace.get_current_span().get_span_context()
    return f"{context.trace_id:032x}" if context is not None and context.is_valid else None


def _wanted() -> bool:
    return any(os.environ.get(name) for name in _ENDPOINTS)


def _nothing() -> None:
    """Nothing was started."""
