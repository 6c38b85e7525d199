"""The services that a run talks to: started on this machine, or wherever they are."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from prover.client import AsyncProverClient
from prover.local import LocalStack, ServedPolicy
from prover.policies.publish import Published
from prover.rpc.channels import open_channel
from prover.rpc.clients import LearnerClient, RolloutClient
from prover.training.crediting import Gateway
from prover.training.experiment import Experiment, learner_toml
from prover.training.learner import LearnerState, StepMetrics
from prover.training.sampling import Rollouts
from prover.trajectory import CreditedTrajectory


class Learner(Protocol):
    """The learner: `prover.rpc.clients.LearnerClient`."""

    async def step(
        self, batch: Sequence[CreditedTrajectory], *, timeout_s: float, after_step: int | None = None
    ) -> StepMetrics:
        """One optimizer step; not taken twice for the same `after_step`."""
        ...

    async def publish(self, *, timeout_s: float) -> Published:
        """The present weights into the engine, proven."""
        ...

    async def state(self, *, timeout_s: float) -> LearnerState:
        """How far training has come."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What a run needs, by what it does."""

    rollouts: Rollouts
    gateway: Gateway
    learner: Learner


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Of services that run elsewhere."""

    gateway: str
    rollout: str
    learner: str


@asynccontextmanager
async def local_services(
    experiment: Experiment, folder: Path, *, workers: int, policy: ServedPolicy | None = None
) -> AsyncGenerator[Services]:
    """Starts everything on this machine, with data, logs and checkpoints below `folder`: everything but the policy
    engine where a `policy` is served already. Raises StackFailed."""
    folder.mkdir(parents=True, exist_ok=True)
    learner_experiment = folder / "learner.toml"
    learner_experiment.write_text(learner_toml(experiment.learner))
    stack = LocalStack(data_dir=folder, port=0, workers=workers, learner_experiment=learner_experiment, policy=policy)
    await stack.start()
    try:
        addresses = stack.addresses
        elsewhere = Addresses(gateway=addresses.gateway, rollout=addresses.rollout, learner=addresses.learner)
        async with remote_services(elsewhere) as services:
            yield services
    finally:
        await stack.stop()


@asynccontextmanager
async def remote_services(addresses: Addresses) -> AsyncGenerator[Services]:
    """Connects to services that run already."""
    async with (
        open_channel(addresses.rollout) as rollout,
        open_channel(addresses.learner) as learner,
        AsyncProverClient(addresses.gateway, timeout_s=60.0) as gateway,
    ):
        yield Services(rollouts=RolloutClient(rollout), gateway=gateway, learner=LearnerClient(learner))
