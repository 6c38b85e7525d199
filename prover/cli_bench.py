"""`prover bench NAME`: the benchmarks, and what each of them answers."""

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Annotated

import typer

BENCHMARKS: Mapping[str, str] = {
    "alfworld": "Is our ALFWorld engine as the stock one, and how much faster?",
    "alfworld-verification": "What does that do to one verification?",
    "autoscaling": "Do scaled workers lose work, and what do they cost?",
    "frugal": "Which credit trains better at equal total tokens?",
    "judges": "Whose segments verify as gains?",
    "learner": "The learner's step beside TRL's.",
    "scaling": "Do more workers verify so much more, and does one coordinator suffice?",
    "throughput": "Does verification keep the engine as busy as a bare load generator?",
    "verification": "What does a rule of verification cost, and how wrong is it?",
}
"""Each is the module bench.NAME, and its record bench/results/NAME.json; hyphens are underscores there."""

_LIST = "\n\n".join(f"{name}: {question}" for name, question in BENCHMARKS.items())


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    passing_on = {"allow_extra_args": True, "ignore_unknown_options": True}
    app.command(context_settings=passing_on, epilog=_LIST)(bench)


def bench(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(BENCHMARKS)}.")],
) -> None:
    """Run a benchmark; its record goes to bench/results/. `prover bench NAME -- --help` shows its own options."""
    asked = name.replace("_", "-")
    if asked not in BENCHMARKS:
        typer.echo(f"prover: benchmark: was {name!r}; expected one of {', '.join(BENCHMARKS)}", err=True)
        raise typer.Exit(1)
    sys.exit(import_module(f"bench.{asked.replace('-', '_')}").main(list(context.args)))
