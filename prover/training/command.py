"""What `prover train` does: everything from a configuration file to a finished run."""

import asyncio
from contextlib import AbstractAsyncContextManager, ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry, start_http_server
from rich.console import Console

from prover.local import ServedPolicy
from prover.telemetry import start_tracing
from prover.training.connect import Addresses, Services, local_services, remote_services
from prover.training.display import Display
from prover.training.experiment import Experiment
from prover.training.loop import Observer, Trainer
from prover.training.metrics import TrainingMetrics
from prover.training.report import write_report
from prover.training.runs import Run, State, failed, open_run
from prover.training.tensorboard import TensorBoard
from prover.training.tracker import Tracker


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSettings:
    """Where things are.

    Attributes:
        folder: of the run.
        addresses: used where the experiment's services are "remote".
        workers: verifier workers, where they are "local".
        policy: the engine that they sample from and publish to; None starts the embedded one.
        metrics_port: where Prometheus reads; 0 is nowhere.
        tensorboard: write event files.
        tracker: package that gets the curves too ("trackio" or "wandb"); empty is none.
        report: JSON file of what came of the run; None writes none.
    """

    folder: Path
    addresses: Addresses
    workers: int = 1
    policy: ServedPolicy | None = None
    metrics_port: int = 0
    tensorboard: bool = True
    tracker: str = ""
    report: Path | None = None


def train(config: Path, experiment: Experiment, settings: TrainSettings, console: Console) -> State:
    """Runs the experiment to its end, from wherever its run stands. Raises what stopped it, after noting it."""
    with ExitStack() as stack:
        stack.callback(start_tracing("train"))
        run = stack.enter_context(open_run(settings.folder, config, experiment))
        display = stack.enter_context(Display(console, steps=experiment.steps))
        observers: list[Observer] = [display]
        if settings.tensorboard:
            observers.append(stack.enter_context(closing(TensorBoard(settings.folder / "tensorboard"))))
        if settings.tracker:
            given = experiment.model_dump(mode="json")
            tracker = Tracker(settings.tracker, name=experiment.name, config=given)
            observers.append(stack.enter_context(closing(tracker)))
        if settings.metrics_port:
            registry = CollectorRegistry()
            observers.append(TrainingMetrics(registry))
            start_http_server(settings.metrics_port, registry=registry)
        state = asyncio.run(_train(experiment, settings, run, observers))
        if settings.report is not None:
            write_report(run, settings.report)
        return state


async def _train(experiment: Experiment, settings: TrainSettings, run: Run, observers: list[Observer]) -> State:
    try:
        async with _services(experiment, settings) as services:
            return await Trainer(experiment, run, services, observers).train()
    except Exception as error:
        run.save(failed(run.state or State(), error))
        raise


def _services(experiment: Experiment, settings: TrainSettings) -> AbstractAsyncContextManager[Services]:
    if experiment.services == "local":
        folder = settings.folder / "services"
        return local_services(experiment, folder, workers=settings.workers, policy=settings.policy)
    if settings.policy is not None:
        raise ValueError(
            "policy: was given with services = 'remote'; expected it in PROVER_POLICY_URLS of the services"
        )
    return remote_services(settings.addresses)
