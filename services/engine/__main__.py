"""The engine's process. Ends on SIGTERM and SIGINT once the answers under way are written, at most 10 s later."""

import logging
from pathlib import Path

import torch
import uvicorn
from transformers.utils.logging import disable_progress_bar

from prover.telemetry import log_as_json, start_tracing, trace_app
from services.engine.batch import Batch
from services.engine.config import EngineSettings
from services.engine.engine import Engine
from services.engine.http_server import make_app
from services.engine.weights import Weights, load_weights

_SHUTDOWN_S = 10


def main() -> None:
    """Reads the settings, builds the objects, serves."""
    settings = EngineSettings()
    log_as_json("engine", level=settings.log_level)
    finish_tracing = start_tracing("engine")
    torch.set_num_threads(settings.threads)
    disable_progress_bar()
    dtype = getattr(torch, settings.dtype)
    weights = load_weights(Path(settings.weights), dtype=dtype)
    logging.getLogger("engine").info("serving %s version %s from %s", weights.name, weights.version, settings.weights)
    app = make_app(make_engine(weights, settings), dtype=dtype)
    trace_app(app)
    uvicorn.run(
        app,
        host=settings.host,
        port=settings.port,
        log_level=settings.log_level.lower(),
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=_SHUTDOWN_S,
    )
    finish_tracing()


def make_engine(weights: Weights, settings: EngineSettings) -> Engine:
    """The engine that these settings describe, not started."""
    batch = Batch(
        weights,
        max_batch=settings.max_batch,
        max_step_tokens=settings.max_step_tokens,
        cache_bytes=settings.cache_mib * 2**20,
    )
    return Engine(batch, max_in_flight=settings.max_batch + settings.max_waiting)


if __name__ == "__main__":
    main()
