"""A real embedded engine behind a real port, in a thread of the test's own process."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import uvicorn
from fastapi import FastAPI

from services.engine.batch import Batch
from services.engine.engine import Engine
from services.engine.http_server import make_app
from services.engine.weights import load_weights


@contextmanager
def serve(app: FastAPI) -> Iterator[str]:
    """The address of an application on a free port."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(10)


def tiny_engine_app(weights: Path) -> FastAPI:
    """The embedded engine, serving that folder."""
    batch = Batch(load_weights(weights), max_batch=8, max_step_tokens=64, cache_bytes=2**24)
    return make_app(Engine(batch, max_in_flight=64), dtype=torch.float32)
