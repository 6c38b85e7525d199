"""The command line: `prover --help`."""

import asyncio
import json
import signal
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.progress import Progress

from prover import cli_bench, cli_training
from prover.client import GatewayUnreachable, ProblemError, ProverClient
from prover.report import features_table, print_analysis, record_table

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Verified credit assignment for agentic reinforcement learning.",
)
app.command()(cli_training.train)
app.command()(cli_training.runs)
cli_bench.add_to(app)
_CONFLICT = 409

Url = Annotated[str, typer.Option("--url", envvar="PROVER_URL", help="Address of the gateway.", show_default=True)]
_DEFAULT_URL = "http://127.0.0.1:8000"


@app.command()
def up(
    port: Annotated[int, typer.Option(help="Port of the gateway on 127.0.0.1.")] = 8000,
    workers: Annotated[int, typer.Option(help="Verifier workers.", min=1)] = 1,
    data_dir: Annotated[Path, typer.Option(help="Where data and logs are kept.")] = Path(".prover"),
) -> None:
    """Start every service on this machine; ctrl-C stops them."""
    from prover.local import LocalStack, StackFailed

    async def run() -> None:
        stack = LocalStack(data_dir=data_dir, port=port, workers=workers)
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopping.set)
        starting = asyncio.create_task(stack.start())
        interrupted = asyncio.create_task(stopping.wait())
        await asyncio.wait({starting, interrupted}, return_when=asyncio.FIRST_COMPLETED)
        if interrupted.done():
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            return
        await starting
        typer.echo(f"ProVer is up at {stack.addresses.gateway} (logs in {data_dir / 'logs'}; ctrl-C stops it)")
        running = asyncio.create_task(stack.run())
        await asyncio.wait({running, interrupted}, return_when=asyncio.FIRST_COMPLETED)
        await stack.stop()
        if running.done() and not interrupted.done():
            await running

    try:
        asyncio.run(run())
    except StackFailed as error:
        _fail(str(error))


@app.command()
def demo(
    output: Annotated[Path, typer.Option(help="Where the result is written.")] = Path("out/demo.json"),
    seed: Annotated[int, typer.Option(help="First generated game to try.")] = 0,
    max_tasks: Annotated[int, typer.Option(help="Most tasks to try.", min=1)] = 30,
    workers: Annotated[int, typer.Option(help="Verifier workers.", min=1)] = 1,
) -> None:
    """The main job from end to end: sample a group, judge it, verify it, credit it, learn from it."""
    from prover.demo import run_demo
    from prover.local import StackFailed

    try:
        found = asyncio.run(run_demo(output=output, first_seed=seed, max_tasks=max_tasks, workers=workers))
    except StackFailed as error:
        _fail(str(error))
    if not found:
        _fail(f"no group with a verified positive segment in {max_tasks} tasks; try more with --max-tasks")


@app.command()
def submit(
    file: Annotated[Path, typer.Argument(help="A JSON file {'group': ..., 'options': ...}; '-' reads standard input.")],
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end and show the result.")] = False,
    key: Annotated[str | None, typer.Option(help="Idempotency key: the same key is the same analysis.")] = None,
    url: Url = _DEFAULT_URL,
) -> None:
    """Hand in a group for analysis; prints the analysis' id."""
    content = _read_json(file)
    with _client(url) as client:
        analysis_id = client.submit_json(content, key=key)
        typer.echo(analysis_id)
        if wait:
            _watch(client, analysis_id)
            _show(client, analysis_id)


@app.command()
def show(
    analysis_id: str,
    as_json: Annotated[bool, typer.Option("--json", help="Print the documents instead of tables.")] = False,
    url: Url = _DEFAULT_URL,
) -> None:
    """Show an analysis: the proposal, its verification, and the advantages."""
    with _client(url) as client:
        if as_json:
            typer.echo(json.dumps(client.get(analysis_id), indent=2))
        else:
            _show(client, analysis_id)


@app.command()
def watch(analysis_id: str, url: Url = _DEFAULT_URL) -> None:
    """Follow an analysis until it has ended, then show it."""
    with _client(url) as client:
        _watch(client, analysis_id)
        _show(client, analysis_id)


@app.command("judge-record")
def judge_record(
    judge: Annotated[str, typer.Argument(help="The judge's name.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the document instead of a table.")] = False,
    url: Url = _DEFAULT_URL,
) -> None:
    """Show what audits have said of a judge, and what its next proposal is paid in mode audited."""
    with _client(url) as client:
        record = client.judge_record(judge)
    if as_json:
        typer.echo(json.dumps(record, indent=2))
    elif record["records"]:
        Console().print(*filter(None, (record_table(record), features_table(record))))
    else:
        typer.echo(f"judge {judge} has not been audited yet")


@app.command()
def play(
    environment: Annotated[str, typer.Argument(help="The environment's name.")] = "alfworld",
    game: Annotated[str | None, typer.Argument(help="A task id, such as generated/pick_and_place_simple/7.")] = None,
) -> None:
    """Play a task by hand, with undo."""
    from prover.play import play as play_task

    try:
        play_task(environment, game)
    except ValueError as error:
        _fail(str(error))


@app.command("check-env")
def check_environment(
    name: Annotated[str, typer.Argument(help="The environment's name, ours or an installed package's.")],
    task_ids: Annotated[list[str], typer.Argument(help="Task ids to try it on.")],
    options: Annotated[str, typer.Option(help="Options of every task, as JSON.")] = "{}",
) -> None:
    """Hold an environment to every promise that verification relies on."""
    from prover.environments import make
    from prover.environments.conformance import Subject, check
    from prover.trajectory import Task

    tasks = tuple(Task(environment=name, task_id=task_id, options=json.loads(options)) for task_id in task_ids)
    findings = check(Subject(make=partial(make, name), tasks=tasks))
    for finding in findings:
        said = finding.problem or (f"skipped: {finding.skipped}" if finding.skipped else "ok")
        typer.echo(f"{finding.check.replace('_', ' ')}: {said}")
    broken = sum(bool(finding.problem) for finding in findings)
    if broken:
        _fail(f"{broken} of {len(findings)} promises are broken; docs/environments.md says what each asks for")


@contextmanager
def _client(url: str) -> Generator[ProverClient]:
    """A client whose failures are told in a line and end with status 1."""
    with ProverClient(url) as client:
        try:
            yield client
        except (ProblemError, GatewayUnreachable) as error:
            _fail(str(error))


def _watch(client: ProverClient, analysis_id: str) -> None:
    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("waiting", total=None)
        for event in client.events(analysis_id):
            status = event.data.get("status")
            progress.update(bar, description=str(status or "verifying"), advance=0 if status else 1)


def _show(client: ProverClient, analysis_id: str) -> None:
    analysis = client.get(analysis_id)
    try:
        advantages = client.advantages(analysis_id)
    except ProblemError as error:
        if error.status != _CONFLICT:
            raise
        advantages = None  # not ended yet, or ended without any
    print_analysis(Console(), analysis, advantages=advantages)


def _read_json(file: Path) -> Mapping[str, object]:
    try:
        content = json.loads(sys.stdin.read() if str(file) == "-" else file.read_text())
    except OSError as error:
        _fail(f"{file}: {error.strerror}")
    except ValueError as error:
        _fail(f"{file}: not JSON: {error}")
    if not isinstance(content, dict):
        _fail(f"{file}: was a JSON {type(content).__name__}; expected an object with a group")
    return content


def _fail(message: str) -> NoReturn:
    typer.echo(f"prover: {message}", err=True)
    raise typer.Exit(1)


def main() -> None:
    """The entry point."""
    app()
