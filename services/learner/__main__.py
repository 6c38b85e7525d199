"""The learner's process. Ends on SIGTERM and SIGINT, after the step under way. Killed, it goes on from its newest
checkpoint when it is started again. Under torchrun it is one of several ranks, of which the first serves."""

import asyncio
import logging
import shutil

from prometheus_client import CollectorRegistry, start_http_server
from transformers.utils.logging import disable_progress_bar

from prover.policies.adapters import Adapters
from prover.policies.addresses import parse_addresses
from prover.policies.publish import Publisher, SharedStorage
from prover.policies.transfer import WeightTransfer
from prover.rpc.servers import Server
from prover.telemetry import log_as_json, start_tracing
from prover.training.learner_experiment import LearnerExperiment, read_learner_experiment
from services.learner.config import LearnerSettings, RankSettings
from services.learner.grpc_server import learner_service
from services.learner.leader import Leader, follow
from services.learner.learner import Learner
from services.learner.metrics import LearnerMetrics
from services.learner.nccl import NcclSender
from services.learner.ranks import Ranks, join_ranks
from services.learner.serial import SerialLearner, tokenize_probe


def main() -> None:
    """Reads the settings, builds the objects, serves."""
    settings = LearnerSettings()
    log_as_json("learner", level=settings.log_level)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    disable_progress_bar()
    experiment = read_learner_experiment(settings.experiment)
    place = RankSettings()
    with join_ranks(rank=place.rank, size=place.world_size, local_rank=place.local_rank) as ranks:
        learner = Learner(settings.weights, settings.output_dir, experiment, ranks)
        if ranks.rank:
            follow(learner, ranks)
            return
        if settings.experiment is not None:
            shutil.copyfile(settings.experiment, settings.output_dir / "experiment.toml")
        finish_tracing = start_tracing("learner")
        leader = Leader(learner, ranks) if ranks.size > 1 else None
        publisher = _publisher(settings, experiment, ranks)
        asyncio.run(_serve(settings, leader or learner, publisher, probe_tolerance=experiment.probe_nats))
        if leader is not None:
            leader.dismiss()
        finish_tracing()


async def _serve(
    settings: LearnerSettings, learner: Learner | Leader, publisher: Publisher, *, probe_tolerance: float
) -> None:
    registry = CollectorRegistry()
    serial = SerialLearner(
        learner,
        publisher,
        probe_tokens=tokenize_probe(settings.weights),
        probe_tolerance=probe_tolerance,
        observer=LearnerMetrics(registry),
    )
    if settings.metrics_port:
        start_http_server(settings.metrics_port, registry=registry)
    server = Server([learner_service(serial)], host=settings.host, port=settings.port, tls=settings.tls)
    policy = _policy_address(settings)
    logging.getLogger("learner").info("listening on %s:%d, publishes to %s", settings.host, server.port, policy)
    try:
        await server.run_until_signal()
    finally:
        serial.close()


def _publisher(settings: LearnerSettings, experiment: LearnerExperiment, ranks: Ranks) -> Publisher:
    address, key = _policy_address(settings), settings.policy_api_key.get_secret_value()
    if experiment.publish == "adapter":
        return Adapters(address, api_key=key, kept=experiment.versions_kept)
    if experiment.publish == "nccl":
        return WeightTransfer(address, NcclSender(ranks.device), api_key=key)
    return SharedStorage(address, api_key=key)


def _policy_address(settings: LearnerSettings) -> str:
    addresses = parse_addresses(settings.policy_urls)
    name = settings.policy or next(iter(addresses))
    if name not in addresses:
        raise ValueError(f"PROVER_LEARNER_POLICY: was {name!r}; expected one of {', '.join(addresses)}")
    return addresses[name]


if __name__ == "__main__":
    main()
