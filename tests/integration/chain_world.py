"""A small world for the verifier: a policy that opens doors, groups it has played, a judge that points at a pivot.

The policy's tokens are code points, so that every context can be read. It opens the right door of a room with
probability `chance`, which makes every value known: `prover.environments.chain.value`.
"""

import asyncio
import math
import random
import re
from collections.abc import Sequence
from dataclasses import replace

from prover.agents import Plain
from prover.analysis import Options
from prover.environments.chain import DOORS, ChainEnvironment, right_door
from prover.episodes import play, start, stop_tokens
from prover.policies.policy import Completion, PolicyError, PolicyInfo, Sampling
from prover.trajectory import Group, Judgement, Proposal, Segment, Task, Trajectory

TASK = Task(environment="chain", task_id="5/1,3", seed=7)
PIVOTAL = Segment(trajectory_id="t0", first_turn=1, last_turn=1)
"""V before it is 0.25 and after it 0.5, where `chance` is 0.5."""

LATE = replace(TASK, options={"traps": "late"})
"""The same rooms, with traps that are felt at the end."""

OPTIONS = Options(mode="fixed", samples=4, max_turns=20, policy="chain", max_tokens=32)
_ROOM = re.compile(r"in room (\d+) of")


def door_text(context: str, *, seed: int, chance: float, draw: float) -> str:
    """What the policy writes after reading a context."""
    room = int(_ROOM.findall(context)[-1])
    right = right_door(seed, room)
    wrong = next(door for door in DOORS if door != right)
    return f"open {right if draw < chance else wrong} door\n"


class ChainPolicy:
    """A `Policy` in this process. `failures` of its completions get no answer, `pause_s` is what each one takes.

    With `wrong_in` it leaves nothing to chance: the wrong door in those rooms, the right one in all others.
    """

    def __init__(self, *, chance: float = 0.5, version: str = "v0", seed: int = 0, pause_s: float = 0.0) -> None:
        self.chance = chance
        self.version = version
        self.pause_s = pause_s
        self.failures = 0
        self.wrong_in: tuple[int, ...] | None = None
        self.contexts: list[str] = []
        self._random = random.Random(seed)

    async def complete(self, context_token_ids: Sequence[int], sampling: Sampling) -> Completion:
        await asyncio.sleep(self.pause_s)
        if self.failures:
            self.failures -= 1
            raise PolicyError("chain: no answer; this one was told to fail")
        context = "".join(map(chr, context_token_ids))
        self.contexts.append(context)
        chance = self.chance
        if self.wrong_in is not None:
            chance = 0.0 if int(_ROOM.findall(context)[-1]) in self.wrong_in else 1.0
        text = door_text(context, seed=TASK.seed, chance=chance, draw=self._random.random())
        tokens = tuple(map(ord, text))
        logprobs = (math.log(0.5), *(0.0,) * (len(tokens) - 1))
        return Completion(
            token_ids=tokens, logprobs=logprobs, text=text[:-1], finish_reason="stop", policy_version=self.version
        )

    async def tokenize(self, text: str) -> tuple[int, ...]:
        return tuple(map(ord, text))

    async def info(self) -> PolicyInfo:
        return PolicyInfo(model="chain", version=self.version, max_context=100_000)


class FixedJudge:
    """A `Judge` that always points at the same segments; without one it has no proposal."""

    def __init__(self, *segments: Segment) -> None:
        self.segments = segments or (PIVOTAL,)
        self.asked = 0

    async def propose(self, group: Group, *, judge: str, seed: int, proposals: int, mistakes: int) -> Judgement:
        self.asked += 1
        if not self.segments:
            return Judgement(judge=judge, prompt_version="1", proposals=(), no_proposal_reason="nothing recurs")
        named = tuple(
            Proposal(segment=segment, failure_mode="the trap", reason="it opened the right door", judge=judge)
            for segment in self.segments
        )
        return Judgement(judge=judge, prompt_version="1", proposals=named)


class Outbox:
    """A `Send` that keeps what was sent, in order."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, tuple[object, ...]]] = []

    async def __call__(self, task: str, *arguments: object) -> None:
        self.sent.append((task, arguments))

    def take(self, task: str) -> list[tuple[object, ...]]:
        """The arguments of all messages of that task, which are then gone."""
        found = [arguments for name, arguments in self.sent if name == task]
        self.sent = [(name, arguments) for name, arguments in self.sent if name != task]
        return found


async def played(policy: ChainPolicy, trajectory_id: str, *, task: Task = TASK) -> Trajectory:
    """One trajectory of the policy."""
    environment, agent = ChainEnvironment(), Plain()
    begin = await start(environment, task, agent=agent, policy=policy)
    sampling = Sampling(stop_token_ids=await stop_tokens(agent, policy))
    result = await play(environment, begin, agent=agent, policy=policy, sampling=sampling, max_turns=20)
    return Trajectory(
        id=trajectory_id,
        task=task,
        policy_version=result.policy_version,
        turns=result.turns,
        reward=result.reward,
        success=result.success,
        ending=result.ending,
    )


async def mixed_group(*, version: str = "v0", successes: int = 2, size: int = 8) -> Group:
    """A group of one policy, successes first."""
    won = [await played(ChainPolicy(chance=1.0, version=version), f"t{index}") for index in range(successes)]
    lost = [await played(ChainPolicy(chance=0.0, version=version), f"t{index}") for index in range(successes, size)]
    return Group(task=TASK, policy_version=version, trajectories=(*won, *lost))


async def erring_group(task: Task = TASK, *, pivots: tuple[int, int] = (1, 3)) -> Group:
    """Two successes, t0 and t1; t2 to t5 go wrong in the first pivotal room, t6 and t7 in the second."""
    first, second = pivots
    rooms: list[tuple[int, ...]] = [(), (), (first,), (first,), (first,), (first,), (second,), (second,)]
    policy = ChainPolicy()
    members: list[Trajectory] = []
    for index, policy.wrong_in in enumerate(rooms):
        members.append(await played(policy, f"t{index}", task=task))
    return Group(task=task, policy_version="v0", trajectories=tuple(members))


def with_turn(group: Group, index: int, **changes: object) -> Group:
    """The group with one turn of its first trajectory changed."""
    first, *others = group.trajectories
    turns = list(first.turns)
    turns[index] = replace(turns[index], **changes)
    return replace(group, trajectories=(replace(first, turns=tuple(turns)), *others))


def without_tokens(group: Group) -> Group:
    """The group as a trainer hands it in that keeps texts only."""
    trajectories = tuple(
        replace(
            trajectory,
            turns=tuple(
                replace(turn, context_token_ids=None, token_ids=None, logprobs=None) for turn in trajectory.turns
            ),
        )
        for trajectory in group.trajectories
    )
    return replace(group, trajectories=trajectories)
