"""The command line's part for training: `prover train` and `prover runs`."""

from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

RunsDir = Annotated[Path, typer.Option(help="Folder of the runs.")]
_RUNS_DIR = Path("out/runs")


def train(  # noqa: PLR0913 - each is an option of the command line
    config: Annotated[Path, typer.Argument(help="The experiment: a TOML file, such as configs/train-demo.toml.")],
    name: Annotated[str | None, typer.Option(help="Name of the run; the experiment's own where left out.")] = None,
    runs_dir: RunsDir = _RUNS_DIR,
    workers: Annotated[int, typer.Option(help="Verifier workers, of local services.", min=1)] = 1,
    policy: Annotated[
        str, typer.Option(help="Policy engine that runs already, for local services: NAME=URL. Needs --weights.")
    ] = "",
    weights: Annotated[Path | None, typer.Option(help="Folder that this engine was started with.")] = None,
    report: Annotated[Path | None, typer.Option(help="JSON of what came of it; a plot goes beside it.")] = None,
    metrics_port: Annotated[int, typer.Option(help="Port for Prometheus; 0 is none.", min=0, max=65535)] = 0,
    tensorboard: Annotated[bool, typer.Option(help="Write TensorBoard's event files.")] = True,
    tracker: Annotated[str, typer.Option(help="Log to this too: trackio or wandb.")] = "",
    gateway: Annotated[str, typer.Option(envvar="PROVER_URL", help="Of remote services.")] = "http://127.0.0.1:8000",
    rollout: Annotated[str, typer.Option(envvar="PROVER_ROLLOUT_ADDRESS", help="The same.")] = "127.0.0.1:8201",
    learner: Annotated[str, typer.Option(envvar="PROVER_LEARNER_ADDRESS", help="The same.")] = "127.0.0.1:8202",
) -> None:
    """Train a policy with verified credit. The same command goes on with a run that was stopped or killed."""
    from prover.client import GatewayUnreachable, ProblemError
    from prover.local import StackFailed, served_policy
    from prover.rpc.clients import RpcError
    from prover.training.command import TrainSettings
    from prover.training.command import train as run_training
    from prover.training.connect import Addresses
    from prover.training.experiment import read_experiment
    from prover.training.publishing import NotPublished
    from prover.training.runs import RunRefused
    from prover.training.sampling import SamplingFailed
    from prover.training.tensorboard import TensorBoardMissing
    from prover.training.tracker import TrackerMissing

    settings_of_name = {} if name is None else {"name": name}
    try:
        experiment = read_experiment(config).model_copy(update=settings_of_name)
        settings = TrainSettings(
            folder=runs_dir / experiment.name,
            addresses=Addresses(gateway=gateway, rollout=rollout, learner=learner),
            workers=workers,
            policy=served_policy(policy, weights),
            metrics_port=metrics_port,
            tensorboard=tensorboard,
            tracker=tracker,
            report=report,
        )
        run_training(config, experiment, settings, Console())
    except (
        GatewayUnreachable,
        NotPublished,
        ProblemError,
        RpcError,
        RunRefused,
        SamplingFailed,
        StackFailed,
        TensorBoardMissing,
        TrackerMissing,
        ValueError,
    ) as error:
        _fail(str(error))
    except KeyboardInterrupt:
        _fail(f"stopped; the same command goes on with it ({runs_dir})")


def runs(runs_dir: RunsDir = _RUNS_DIR) -> None:
    """List training runs: status, step, success on held-out tasks."""
    from prover.training.display import runs_table
    from prover.training.runs import list_runs

    try:
        found = list_runs(runs_dir)
    except ValueError as error:
        _fail(str(error))
    if not found:
        _fail(f"no runs in {runs_dir}; start one with: prover train configs/train-demo.toml")
    Console().print(runs_table(found))


def _fail(message: str) -> NoReturn:
    typer.echo(f"prover: {message}", err=True)
    raise typer.Exit(1)
