"""`make bench-throughput`: does verification keep the engine as busy as a bare load generator does?

A burst of analyses goes through the whole system on this machine: gateway, judge, coordinator, one worker, as in
production. It keeps its continuations, so that what it asked the engine for is known: every prompt and the number of
tokens of every answer. Then a bare load generator (bench/load.py) sends the same engine the same requests, with as many
in flight as the worker may have. The two take turns, each pair on groups that the engine has not seen.

    ratio = sampled tokens a second of the burst / of the load generator

A burst lasts from its first analysis' `verifying` to its last outcome, by the clock of its events. The embedded engine
is started here; --url names any other OpenAI-compatible server (vLLM).

    prover bench throughput
    prover bench throughput --url http://127.0.0.1:8000 --agent chatml --max-turns 24 --record throughput_vllm
"""

import argparse
import asyncio
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.table import Table

from bench.figures import samples_of
from bench.judge_groups import load
from bench.load import Episode, recorded, replay
from bench.parts import Parts, until_answers
from bench.record import write_record
from prover.client import AsyncProverClient
from prover.local.stack import free_port
from prover.policies import PolicyClient
from prover.trajectory import Group

_COUNTED = {
    "prover_engine_computed_tokens_total": "computed_tokens",
    "prover_engine_steps_total": "steps",
    "vllm:prompt_tokens_total": "prompt_tokens",
    "vllm:prefix_cache_hits_total": "cached_tokens",
}
"""What engines count, by the names of the record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The engine under load."""

    url: str
    model: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """One burst. `seconds` is from the first boundary to the last outcome, `whole_s` from the first request on."""

    episodes: tuple[Episode, ...]
    seconds: float
    whole_s: float


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the record and prints a line for each pair, the headline last."""
    options = _options(argv)
    rows = asyncio.run(_measure(options))
    headline = headline_of(rows)
    write_record(options.record, settings=vars(options), headline=headline, rows=rows)
    console = Console()
    console.print(_table(rows))
    console.print("  ".join(f"{name} {value:.3f}" for name, value in headline.items()))
    return 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="prover bench throughput", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", default="", help="an engine that runs already (default: starts the embedded one)")
    parser.add_argument("--pairs", type=int, default=5, help="bursts, each followed by its replay (default: 5)")
    parser.add_argument("--analyses", type=int, default=12, help="analyses in a burst (default: 12)")
    parser.add_argument("--samples", type=int, default=8, help="continuations of a boundary (default: 8)")
    parser.add_argument("--mode", default="fixed", help="mode of the analyses (default: fixed)")
    parser.add_argument("--agent", default="plain", help="prompt format (default: plain)")
    parser.add_argument("--max-turns", type=int, default=50, help="turns of an episode (default: 50)")
    parser.add_argument("--max-tokens", type=int, default=32, help="tokens of a turn (default: 32)")
    parser.add_argument("--in-flight", type=int, default=16, help="requests at a time, on both sides (default: 16)")
    parser.add_argument("--tasks", type=int, default=8, help="tasks at a time of the worker (default: 8)")
    parser.add_argument("--batch", type=int, default=4, help="continuations of a task (default: 4)")
    parser.add_argument("--first-group", type=int, default=0, help="of bench/data/judge_groups.json.gz (default: 0)")
    parser.add_argument("--record", default="throughput", help="name of the record (default: throughput)")
    return parser.parse_args(argv)


async def _measure(options: argparse.Namespace) -> list[dict[str, float]]:
    port = free_port()
    url = options.url.rstrip("/") or f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory(prefix="prover-bench-") as folder:
        async with Parts(Path(folder), policy_urls=f"measured={url}") as parts:
            if not options.url:
                await parts.module("engine", "services.engine", PROVER_ENGINE_PORT=port)
            await until_answers(f"{url}/v1/models")
            await parts.system(
                workers=1,
                PROVER_VERIFIER_CONCURRENCY=options.tasks,
                PROVER_VERIFIER_BATCH_SAMPLES=options.batch,
                PROVER_VERIFIER_MAX_IN_FLIGHT=options.in_flight,
            )
            target = await _target(url)
            groups = _groups(target, first=options.first_group, count=options.analyses * (options.pairs + 1))
            rows: list[dict[str, float]] = []
            # The first pair warms everything up (connections, compiled code, tokens of texts) and does not count.
            for pair in range(options.pairs + 1):
                part = groups[pair * options.analyses : (pair + 1) * options.analyses]
                rows.append(await _pair(parts, target, part, options))
            return rows[1:]


async def _target(url: str) -> Target:
    client = PolicyClient(url)
    try:
        info = await client.info()
    finally:
        await client.aclose()
    return Target(url=url, model=info.model, version=info.version)


def _groups(target: Target, *, first: int, count: int) -> list[Group]:
    """Groups of texts, as of the policy that is served: contexts are rebuilt with its own tokens."""
    known = load()
    if first + count > len(known):
        raise SystemExit(f"throughput: {first + count} groups are needed and {len(known)} are there; ask for less")
    return [_of_version(one.group, target.version) for one in known[first : first + count]]


def _of_version(group: Group, version: str) -> Group:
    members = tuple(replace(member, policy_version=version) for member in group.trajectories)
    return replace(group, policy_version=version, trajectories=members)


async def _pair(parts: Parts, target: Target, groups: Sequence[Group], options: argparse.Namespace) -> dict[str, float]:
    await _forget(target)
    before, used = await _counted(target), parts.processor_s()
    burst = await _burst(parts.gateway_url, groups, options)
    between, used_then = await _counted(target), parts.processor_s()
    await _forget(target)
    start = await _counted(target)
    replay_s = await replay(target.url, target.model, burst.episodes, at_once=options.in_flight)
    after = await _counted(target)
    sampled = sum(episode.sampled for episode in burst.episodes)
    return {
        "episodes": len(burst.episodes),
        "requests": sum(len(episode.turns) for episode in burst.episodes),
        "sampled_tokens": sampled,
        "burst_s": round(burst.seconds, 2),
        "burst_whole_s": round(burst.whole_s, 2),
        "replay_s": round(replay_s, 2),
        "burst_tokens_per_s": round(sampled / burst.seconds, 1),
        "replay_tokens_per_s": round(sampled / replay_s, 1),
        "ratio": round(replay_s / burst.seconds, 4),
        **{f"burst_{name}": between[name] - before[name] for name in before},
        **{f"replay_{name}": after[name] - start[name] for name in start},
        **{
            f"{name}_cpu_share": round((used_then[name] - used[name]) / burst.whole_s, 3)
            for name in used
            if name in used_then
        },
    }


async def _burst(gateway: str, groups: Sequence[Group], options: argparse.Namespace) -> Burst:
    asked = {
        "mode": options.mode,
        "samples": options.samples,
        "agent": options.agent,
        "max_turns": options.max_turns,
        "max_tokens": options.max_tokens,
        "keep_continuations": True,
    }
    clock = asyncio.get_running_loop().time
    async with AsyncProverClient(gateway) as client:
        began = clock()
        ids = await asyncio.gather(*(client.submit(group, asked) for group in groups))
        for analysis_id in ids:
            analysis = await client.wait(analysis_id)
            if analysis["status"] != "done":
                raise RuntimeError(f"analysis {analysis_id}: ended as {analysis['status']}: {analysis['error']}")
        whole_s = clock() - began
        spans = [await _span(client, analysis_id) for analysis_id in ids]
        kept: list[Any] = [await client.continuations(analysis_id) for analysis_id in ids]
    episodes = tuple(
        recorded(one["trajectory"]["turns"])
        for answer in kept
        for boundary in answer["boundaries"]
        for one in boundary["continuations"]
    )
    seconds = max(last for _, last in spans) - min(first for first, _ in spans)
    return Burst(episodes=episodes, seconds=seconds, whole_s=whole_s)


async def _span(client: AsyncProverClient, analysis_id: str) -> tuple[float, float]:
    """Seconds since 1970 at which the analysis began to be verified and had its last outcome, by Redis' clock."""
    events = [event async for event in client.events(analysis_id)]
    begun = [_at(event.id) for event in events if event.data.get("status") == "verifying"]
    outcomes = [_at(event.id) for event in events if event.event == "outcome"]
    return begun[0], outcomes[-1]


def _at(event_id: str) -> float:
    return int(event_id.partition("-")[0]) / 1000


async def _forget(target: Target) -> None:
    """Both sides begin with an empty prefix cache. A server that does not offer to forget starts warm on both."""
    async with httpx.AsyncClient(base_url=target.url, trust_env=False) as http:
        await http.post("/reset_prefix_cache")


async def _counted(target: Target) -> dict[str, float]:
    async with httpx.AsyncClient(base_url=target.url, trust_env=False) as http:
        answer = await http.get("/metrics")
    if not answer.is_success:
        return {}
    return {_COUNTED[sample.name]: sample.value for sample in samples_of(answer.text) if sample.name in _COUNTED}


def headline_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Medians over the pairs, and the lowest and highest ratio."""
    ratios = [float(row["ratio"]) for row in rows]
    return {
        "ratio": round(statistics.median(ratios), 4),
        "ratio_lowest": min(ratios),
        "ratio_highest": max(ratios),
        "burst_tokens_per_s": statistics.median(float(row["burst_tokens_per_s"]) for row in rows),
        "replay_tokens_per_s": statistics.median(float(row["replay_tokens_per_s"]) for row in rows),
    }


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title="a burst of verification beside a bare load generator")
    for column in ("episodes", "requests", "sampled tokens", "burst tokens/s", "bare tokens/s", "ratio"):
        table.add_column(column, justify="right")
    for row in rows:
        shown = ("episodes", "requests", "sampled_tokens", "burst_tokens_per_s", "replay_tokens_per_s", "ratio")
        table.add_row(*(f"{row[name]}" for name in shown))
    return table


if __name__ == "__main__":
    raise SystemExit(main())
