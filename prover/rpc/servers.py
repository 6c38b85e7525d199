"""The one place that makes gRPC servers: health, reflection, message sizes, TLS, graceful stop."""

import asyncio
import re
import signal
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from prover.rpc.settings import ANALYSIS_KEY, MAX_MESSAGE_BYTES, Tls
from prover.telemetry import about

_ID = re.compile(r"[0-9A-Za-z_-]{1,64}")
Register = Callable[[grpc.aio.Server], str]
"""Adds a service to a server and answers its full name."""


class Server:
    """A gRPC server on one port. `port` is the one that was bound, also where 0 was asked for."""

    def __init__(
        self, services: Sequence[Register], *, host: str = "127.0.0.1", port: int = 0, tls: Tls | None = None
    ) -> None:
        options = [
            ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            ("grpc.so_reuseport", 0),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
        ]
        self._server = grpc.aio.server(options=options, maximum_concurrent_rpcs=256)
        self._health = health.aio.HealthServicer()  # pyright: ignore[reportAttributeAccessIssue]  # missing in the stubs only
        names = [register(self._server) for register in services]
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection.enable_server_reflection([*names, health.SERVICE_NAME, reflection.SERVICE_NAME], self._server)
        self._names = ["", *names]
        self.port = _bind(self._server, f"{host}:{port}", tls)

    async def start(self) -> None:
        """Serves, and says so to who asks for its health."""
        await self._server.start()
        for name in self._names:
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    async def stop(self, grace_s: float = 10.0) -> None:
        """Refuses new calls, lets running ones finish within `grace_s`."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace_s)

    async def run_until_signal(self) -> None:
        """Serves until SIGTERM or SIGINT."""
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)
        await self.start()
        await stopping.wait()
        await self.stop()


@contextmanager
def about_call(metadata: Iterable[tuple[str, str | bytes]] | None) -> Generator[None]:
    """Every line that is logged in the block names the analysis that the caller named, if it did."""
    named = next((value for key, value in metadata or () if key == ANALYSIS_KEY), None)
    if not isinstance(named, str) or not _ID.fullmatch(named):
        yield
        return
    with about(named):
        yield


def _bind(server: grpc.aio.Server, address: str, tls: Tls | None) -> int:
    if tls is None:
        return server.add_insecure_port(address)
    if tls.key is None or tls.certificate is None:
        raise ValueError("tls: a server needs key and certificate")
    authority = tls.authority.read_bytes() if tls.authority else None
    credentials = grpc.ssl_server_credentials(
        [(tls.key.read_bytes(), tls.certificate.read_bytes())],
        root_certificates=authority,
        require_client_auth=authority is not None,
    )
    return server.add_secure_port(address, credentials)
