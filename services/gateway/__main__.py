"""The gateway as a process: `python -m services.gateway`."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from types import FrameType

import uvicorn

from prover.environments import make
from prover.policies import PolicyClient
from prover.policies.addresses import parse_addresses
from prover.rpc.channels import open_channel
from prover.rpc.clients import JudgeClient
from prover.store import open_records, open_store
from prover.telemetry import log_as_json, start_tracing, trace_app
from prover.trajectory import Task
from services.gateway.config import GatewaySettings
from services.gateway.gateway import Doors, Gateway
from services.gateway.http_server import create_app
from services.gateway.judge_records import RecordShelf
from services.gateway.live import OpenRequests
from services.gateway.metrics import Metrics
from services.gateway.parts import Parts
from services.gateway.pull import Pull
from services.gateway.queue import CeleryQueue
from services.gateway.readiness import JudgeNames, Readiness
from services.gateway.sweep import Sweep

_ENGINE_S = 60.0
_TRIED_WITH: Mapping[str, str] = {"alfworld": "alfworld", "alfworld-stock": "alfworld", "chain": "chain"}
"""Environments whose tasks are tried at the door, and with which: one with the same tasks that starts at once."""


def check_task(task: Task) -> None:
    """Starts the task once where that is cheap; the verifier tries the others. ValueError says what is wrong."""
    quick = _TRIED_WITH.get(task.environment)
    if quick is not None:
        make(quick).reset(replace(task, environment=quick))


class Server(uvicorn.Server):
    """Tells the open requests that it stops: event streams would hold it up for their whole lives."""

    def __init__(self, config: uvicorn.Config, open_requests: OpenRequests) -> None:
        super().__init__(config)
        self._open_requests = open_requests

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """On SIGTERM and SIGINT."""
        self._open_requests.stopping.set()
        super().handle_exit(sig, frame)


@asynccontextmanager
async def parts_of(settings: GatewaySettings) -> AsyncGenerator[Parts]:
    """Everything that the routes need, with the sweep running."""
    async with AsyncExitStack() as stack:
        store = open_store(settings.redis_url, settings.blob_url)
        stack.push_async_callback(store.aclose)
        records = open_records(settings.redis_url)
        stack.push_async_callback(records.aclose)
        queue = CeleryQueue(settings.redis_url)
        stack.callback(queue.close)
        key = settings.policy_api_key.get_secret_value()
        addresses = parse_addresses(settings.policy_urls)
        # Whoever asks the gateway waits meanwhile; it never asks for a turn, which may take long.
        policies = {name: PolicyClient(url, timeout_s=_ENGINE_S, api_key=key) for name, url in addresses.items()}
        for client in policies.values():
            stack.push_async_callback(client.aclose)
        judge = JudgeClient(await stack.enter_async_context(open_channel(settings.judge_address)))
        names = JudgeNames(judge)
        doors = Doors(
            policies=policies,
            judges=names,
            check_task=check_task if settings.check_tasks else None,
            max_active=settings.max_active,
        )
        metrics, gateway = Metrics(), Gateway(store, queue, doors)
        yield Parts(
            gateway=gateway,
            pull=Pull(gateway, queue),
            sweep=Sweep(store, queue, idle_s=settings.idle_s, report=metrics.swept),
            records=RecordShelf(records, names),
            open_requests=OpenRequests(),
            metrics=metrics,
            ready=Readiness(store, judge, policies),
            max_body_bytes=settings.max_body_mib * 1024 * 1024,
        )


async def serve(settings: GatewaySettings) -> None:
    """Serves until SIGTERM or SIGINT."""
    async with parts_of(settings) as parts:
        app = create_app(parts)
        trace_app(app)
        config = uvicorn.Config(
            app,
            host=settings.host,
            port=settings.port,
            access_log=False,
            log_level="warning",
            log_config=None,
            timeout_graceful_shutdown=5,
        )
        server = Server(config, parts.open_requests)
        serving = asyncio.create_task(server.serve())
        sweeping = asyncio.create_task(parts.sweep.run())
        # The sweep never ends by itself: where it does, that is a bug, and the process goes down with it.
        await asyncio.wait({serving, sweeping}, return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        await serving
        if not sweeping.done():
            sweeping.cancel()
            return
        await sweeping


def main() -> None:
    """Reads the settings and serves."""
    log_as_json("gateway")
    finish_tracing = start_tracing("gateway")
    asyncio.run(serve(GatewaySettings.model_validate({})))
    finish_tracing()


if __name__ == "__main__":
    main()
