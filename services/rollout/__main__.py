"""The rollout service's process. Ends on SIGTERM and SIGINT; calls in progress get 10 s to finish."""

import asyncio
import logging

from prometheus_client import CollectorRegistry, start_http_server

from prover.environments import make
from prover.policies.addresses import parse_addresses
from prover.policies.client import PolicyClient
from prover.policies.publish import SharedStorage
from prover.rpc.servers import Server
from prover.telemetry import log_as_json, start_tracing
from services.rollout.config import RolloutSettings
from services.rollout.grpc_server import rollout_service
from services.rollout.metrics import RolloutMetrics
from services.rollout.rollout import Rollout


def main() -> None:
    """Reads the settings, builds the objects, serves."""
    settings = RolloutSettings()
    log_as_json("rollout", level=settings.log_level)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    finish_tracing = start_tracing("rollout")
    asyncio.run(_serve(settings))
    finish_tracing()


async def _serve(settings: RolloutSettings) -> None:
    address = _policy_address(settings)
    registry = CollectorRegistry()
    key = settings.policy_api_key.get_secret_value()
    policy = PolicyClient(address, max_in_flight=settings.max_concurrent, api_key=key)
    rollout = Rollout(
        policy,
        publisher=SharedStorage(address, api_key=key),
        make_environment=make,
        max_concurrent=settings.max_concurrent,
        observer=RolloutMetrics(registry),
    )
    if settings.metrics_port:
        start_http_server(settings.metrics_port, registry=registry)
    server = Server([rollout_service(rollout)], host=settings.host, port=settings.port, tls=settings.tls)
    logging.getLogger("rollout").info("listening on %s:%d, policy at %s", settings.host, server.port, address)
    try:
        await server.run_until_signal()
    finally:
        await policy.aclose()


def _policy_address(settings: RolloutSettings) -> str:
    addresses = parse_addresses(settings.policy_urls)
    name = settings.policy or next(iter(addresses))
    if name not in addresses:
        raise ValueError(f"PROVER_ROLLOUT_POLICY: was {name!r}; expected one of {', '.join(addresses)}")
    return addresses[name]


if __name__ == "__main__":
    main()
