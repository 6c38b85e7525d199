"""Groups with known truth for `make bench-judges`: eligible ALFWorld groups, and what their boundaries are worth.

    python -m bench.judge_groups                                           # of the weak searcher, no model needed
    python -m bench.judge_groups --url http://127.0.0.1:8100 --groups 8    # of the policy of that engine

samples groups of 8 on generated games, keeps those that are eligible, plays 64 continuations from every boundary of the
anchor, and adds them to bench/data/judge_groups.json.gz. A boundary is restored exactly: the environment from a
snapshot whose digest is checked, a language model by the very tokens that it had read. A stopped run goes on where it
was stopped.
"""

import argparse
import asyncio
import gzip
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Protocol

from bench.weak_searcher import NAME, WeakSearcher
from prover import environments
from prover.agents import Plain
from prover.credit.eligibility import anchor, eligible
from prover.environments.alfworld.generate import TASK_TYPES
from prover.episodes import Played, Start, play, start, stop_tokens
from prover.policies import Policy, PolicyClient, Sampling
from prover.trajectory import BoundaryCount, Ending, Group, Task, Trajectory, Turn

DATA = Path(__file__).parent / "data" / "judge_groups.json.gz"
_GROUP = 8

log = logging.getLogger("judge_groups")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownGroup:
    """A group of a policy and the truth about its anchor: continuations from every boundary, the end included."""

    policy: str
    group: Group
    boundaries: tuple[BoundaryCount, ...]

    def __post_init__(self) -> None:
        if len(self.boundaries) != len(anchor(self.group).turns) + 1:
            raise ValueError(
                f"boundaries: {len(self.boundaries)}; expected one for each turn of the anchor and the end"
            )


def load(path: Path = DATA) -> list[KnownGroup]:
    """The saved groups. Raises OSError where there is no such file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [_read(record) for record in json.load(file)["groups"]]


def save(groups: Sequence[KnownGroup], path: Path) -> None:
    """Writes the groups without tokens: judges read texts."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = json.dumps({"groups": [_record(known) for known in groups]}, separators=(",", ":")).encode()
    path.write_bytes(gzip.compress(data, mtime=0))


class Sampler(Protocol):
    """Plays one policy."""

    async def episodes(self, task: Task, many: int) -> Sequence[Played]:
        """Episodes of a task."""
        ...

    async def continuations(self, group: Group, turn: int, many: int) -> Sequence[Played]:
        """Continuations from before a turn of the anchor."""
        ...


class EngineSampler:
    """The policy of an engine, over HTTP."""

    def __init__(self, policy: Policy, *, stop: tuple[int, ...], max_turns: int) -> None:
        self._policy, self._max_turns = policy, max_turns
        self._sampling = Sampling(stop_token_ids=stop)

    async def episodes(self, task: Task, many: int) -> Sequence[Played]:
        """All at once."""
        return await asyncio.gather(*(self._episode(task) for _ in range(many)))

    async def continuations(self, group: Group, turn: int, many: int) -> Sequence[Played]:
        """All at once; the engine computes what they share once."""
        state = snapshot(group, turn)
        return await asyncio.gather(*(self._continue(group, turn, state) for _ in range(many)))

    async def _episode(self, task: Task) -> Played:
        environment = environments.make(task.environment)
        return await self._play(environment, await start(environment, task, agent=Plain(), policy=self._policy))

    async def _continue(self, group: Group, turn: int, state: bytes) -> Played:
        environment = environments.make(group.task.environment)
        environment.restore(state)
        before = anchor(group).turns[turn]
        context = before.context_token_ids or ()
        begin = Start(observation=before.observation, context_token_ids=context, turns_used=turn)
        return await self._play(environment, begin)

    async def _play(self, environment: environments.Environment, begin: Start) -> Played:
        return await play(
            environment,
            begin,
            agent=Plain(),
            policy=self._policy,
            sampling=self._sampling,
            max_turns=self._max_turns,
        )


class SearcherSampler:
    """The weak searcher, in this process."""

    def __init__(self, *, max_turns: int) -> None:
        self._max_turns = max_turns

    async def episodes(self, task: Task, many: int) -> Sequence[Played]:
        """One after the other."""
        policy, environment = WeakSearcher(task, max_turns=self._max_turns), environments.make(task.environment)
        return [
            policy.play(environment, environment.reset(task).text, (), seed=f"{task.task_id}/{index}")
            for index in range(many)
        ]

    async def continuations(self, group: Group, turn: int, many: int) -> Sequence[Played]:
        """One after the other."""
        policy, state = WeakSearcher(group.task, max_turns=self._max_turns), snapshot(group, turn)
        environment, turns = environments.make(group.task.environment), anchor(group).turns
        played: list[Played] = []
        for index in range(many):
            environment.restore(state)
            seed = f"{group.task.task_id}/{turn}/{index}"
            played.append(policy.play(environment, turns[turn].observation, turns[:turn], seed=seed))
        return played


def snapshot(group: Group, turn: int) -> bytes:
    """The environment before a turn of the anchor. Raises RuntimeError where it does not come back as it was."""
    environment, run = environments.make(group.task.environment), anchor(group)
    environment.reset(group.task)
    for past in run.turns[:turn]:
        if past.action is not None:
            environment.step(past.action)
    if environment.digest() != run.turns[turn].digest:
        raise RuntimeError(f"{group.task.task_id}: turn {turn} did not come back as it was recorded")
    return environment.snapshot()


async def _make(options: argparse.Namespace) -> None:
    if not options.url:
        await _add(SearcherSampler(max_turns=options.max_turns), NAME, options)
        return
    policy = PolicyClient(options.url, max_in_flight=options.at_once)
    try:
        info = await policy.info()
        stop = await stop_tokens(Plain(), policy)
        await _add(EngineSampler(policy, stop=stop, max_turns=options.max_turns), info.model, options)
    finally:
        await policy.aclose()


async def _add(sampler: Sampler, policy: str, options: argparse.Namespace) -> None:
    """Adds groups of a policy to the file until it has enough of them."""
    known = load(options.out) if options.out.exists() else []
    done = {one.group.task.task_id for one in known if one.policy == policy}
    for number in count():
        if len(done) >= options.groups:
            return
        kind = TASK_TYPES[number % len(TASK_TYPES)]
        task = Task(environment="alfworld", task_id=f"generated/{kind}/{options.first_seed + number}")
        if task.task_id in done:
            continue
        group = _group(task, await sampler.episodes(task, _GROUP))
        if not eligible(sum(run.success for run in group.trajectories), _GROUP):
            continue
        turns = range(len(anchor(group).turns))
        counts = [_count(await sampler.continuations(group, turn, options.samples)) for turn in turns]
        won = BoundaryCount(successes=options.samples, samples=options.samples)
        known.append(KnownGroup(policy=policy, group=group, boundaries=(*counts, won)))
        done.add(task.task_id)
        save(known, options.out)
        log.info("%d of %d: %s, %d turns", len(done), options.groups, task.task_id, len(turns))


def _group(task: Task, played: Sequence[Played]) -> Group:
    runs = tuple(_trajectory(f"t{index}", task, one) for index, one in enumerate(played))
    return Group(task=task, policy_version=played[0].policy_version, trajectories=runs)


def _count(played: Sequence[Played]) -> BoundaryCount:
    return BoundaryCount(
        successes=sum(one.success for one in played),
        samples=len(played),
        tokens=sum(one.sampled_tokens for one in played),
    )


def _trajectory(name: str, task: Task, played: Played) -> Trajectory:
    return Trajectory(
        id=name,
        task=task,
        policy_version=played.policy_version,
        turns=played.turns,
        reward=played.reward,
        success=played.success,
        ending=played.ending,
    )


def _record(known: KnownGroup) -> dict[str, object]:
    group = known.group
    return {
        "policy": known.policy,
        "task_id": group.task.task_id,
        "policy_version": group.policy_version,
        "successes": [count.successes for count in known.boundaries],
        "samples": [count.samples for count in known.boundaries],
        "trajectories": [
            {
                "id": run.id,
                "success": run.success,
                "ending": run.ending.value,
                "turns": [[turn.observation, turn.text, turn.action, turn.valid, turn.digest] for turn in run.turns],
            }
            for run in group.trajectories
        ],
    }


def _read(record: dict[str, object]) -> KnownGroup:
    raw: dict[str, list[dict[str, list[list[str | None]]]]] = record  # pyright: ignore[reportAssignmentType]  # our own file
    task = Task(environment="alfworld", task_id=str(record["task_id"]))
    version = str(record["policy_version"])
    runs = tuple(
        Trajectory(
            id=str(run["id"]),
            task=task,
            policy_version=version,
            turns=tuple(
                Turn(observation=seen or "", text=text or "", action=action, valid=bool(valid), digest=digest)
                for seen, text, action, valid, digest in run["turns"]
            ),
            reward=float(bool(run["success"])),
            success=bool(run["success"]),
            ending=Ending(str(run["ending"])),
        )
        for run in raw["trajectories"]
    )
    pairs: list[tuple[int, int]] = list(zip(record["successes"], record["samples"], strict=True))  # pyright: ignore[reportArgumentType]  # our own file
    boundaries = tuple(BoundaryCount(successes=successes, samples=samples) for successes, samples in pairs)
    return KnownGroup(
        policy=str(record["policy"]),
        group=Group(task=task, policy_version=version, trajectories=runs),
        boundaries=boundaries,
    )


def main() -> None:
    """Samples until there are enough groups."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="", help="address of a policy engine; without one, the weak searcher plays")
    parser.add_argument("--groups", type=int, default=32, help="eligible groups of this policy in all")
    parser.add_argument("--samples", type=int, default=64, help="continuations of each boundary")
    parser.add_argument("--max-turns", type=int, default=50, help="turns of an episode")
    parser.add_argument("--at-once", type=int, default=64, help="requests in flight")
    parser.add_argument("--first-seed", type=int, default=1_500_000, help="seed of the first game")
    parser.add_argument("--out", type=Path, default=DATA)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    asyncio.run(_make(parser.parse_args()))


if __name__ == "__main__":
    main()
