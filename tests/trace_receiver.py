"""An OTLP collector over HTTP that keeps what it is sent."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True, slots=True)
class Span:
    """Who did what as part of which trace; ids in hexadecimal digits, `parent` empty where there is none."""

    service: str
    name: str
    trace: str
    id: str
    parent: str


class Receiver(ThreadingHTTPServer):
    """Serves on a free port."""

    def __init__(self) -> None:
        self._bodies: list[bytes] = []
        super().__init__(("127.0.0.1", 0), _Keep)

    def keep(self, body: bytes) -> None:
        self._bodies.append(body)

    def environment(self) -> Mapping[str, str]:
        """What makes a process export to it, soon after each span has ended."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.server_port}",
            "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }

    def spans(self) -> list[Span]:
        """All that have come."""
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        found: list[Span] = []
        for body in list(self._bodies):
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                names = {item.key: item.value.string_value for item in resource.resource.attributes}
                found += [
                    Span(
                        names["service.name"],
                        span.name,
                        span.trace_id.hex(),
                        span.span_id.hex(),
                        span.parent_span_id.hex(),
                    )
                    for scope in resource.scope_spans
                    for span in scope.spans
                ]
        return found


class _Keep(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        self.server.keep(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        return


@contextmanager
def receive_traces() -> Iterator[Receiver]:
    """A collector while the block runs."""
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
