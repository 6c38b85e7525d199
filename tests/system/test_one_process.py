"""The whole system in one process, without Redis, gRPC or HTTP: the file to read first.

The real logic of rollout, judge and verifier, composed by hand; only the queue is a list. What the other files of the
services add is transport.
"""

import random
from collections.abc import Sequence

import pytest

from prover.analysis import Options
from prover.credit.advantages import assign_credit
from prover.environments import make
from prover.environments.chain import right_door
from prover.lifecycle import Status
from prover.policies.policy import Completion, PolicyInfo, Sampling
from prover.queues import CONTINUE_TASK, DECIDE_TASK
from prover.trajectory import Group, Judgement, Task, Trajectory
from services.judge.judge import JudgeOptions, ProposeLimits
from services.judge.judge import make as make_judge
from services.rollout.rollout import GroupOrder, Rollout
from services.verifier.continuations import Batch, Continuations
from services.verifier.endings import Endings
from services.verifier.metrics import Metrics
from services.verifier.player import World
from services.verifier.verifier import Coordinator
from tests.system.memory_store import MemoryStore

TASK = Task(environment="chain", task_id="4/1", seed=3)
PIVOT, SKILL = 1, 0.3


class Wanderer:
    """Opens the right door of the pivotal room with probability SKILL. Its tokens are characters."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    async def complete(self, context_token_ids: Sequence[int], sampling: Sampling) -> Completion:
        room = int("".join(map(chr, context_token_ids)).rpartition("in room ")[2].split()[0])
        right = right_door(TASK.seed, room)
        wrong = "red" if right == "blue" else "blue"
        door = right if room != PIVOT or self._random.random() < SKILL else wrong
        text = f"open {door} door\n"
        ids = tuple(map(ord, text))
        return Completion(
            token_ids=ids, logprobs=(0.0,) * len(ids), text=text, finish_reason="stop", policy_version="v0"
        )

    async def tokenize(self, text: str) -> tuple[int, ...]:
        return tuple(map(ord, text))

    async def info(self) -> PolicyInfo:
        return PolicyInfo(model="wanderer", version="v0", max_context=10_000)


class Silent:
    """Nobody watches, and nobody publishes."""

    def finished(self, trajectory: Trajectory, seconds: float) -> None: ...

    def failed(self, attempt: object) -> None: ...

    async def publish(self, weights_path: str) -> None: ...


class Contrast:
    """The judge's logic where its gRPC client would be."""

    async def propose(self, group: Group, *, judge: str, seed: int, proposals: int, mistakes: int) -> Judgement:
        limits = ProposeLimits(max_proposals=proposals, max_mistakes=mistakes, seed=seed)
        return await make_judge(judge, JudgeOptions()).propose(group, limits)


async def sample_group(policy: Wanderer) -> Group:
    rollout = Rollout(policy, publisher=Silent(), make_environment=make, max_concurrent=8, observer=Silent())
    order = GroupOrder(task=TASK, size=8, max_turns=10, agent="plain", sampling=Sampling())
    sampled = [item async for item in rollout.sample_group(order) if isinstance(item, Trajectory)]
    ordered = tuple(sorted(sampled, key=lambda trajectory: trajectory.id))
    return Group(task=TASK, policy_version="v0", trajectories=ordered)


async def analyse(store: MemoryStore, policy: Wanderer, group: Group, options: Options) -> None:
    """The queue is a list; whoever is next takes from its front."""
    queue: list[tuple[str, tuple[object, ...]]] = []

    async def send(task: str, *arguments: object) -> None:
        queue.append((task, arguments))

    metrics = Metrics()
    endings = Endings(store, metrics)
    coordinator = Coordinator(store, Contrast(), send, endings)
    worker = Continuations(store, World(policies={"embedded": policy}, make_environment=make), send, endings, metrics)
    await store.create("a1", group, options)
    await coordinator.analyze("a1")
    while queue:
        task, arguments = queue.pop(0)
        if task == CONTINUE_TASK:
            identifier, number, side, first, samples = arguments
            await worker.play_batch(
                Batch(analysis_id=identifier, number=number, side=side, first_sample=first, samples=samples)
            )
        else:
            assert task == DECIDE_TASK
            await coordinator.decide(*arguments)


@pytest.mark.parametrize("seed", range(3))
async def test_a_group_goes_in_and_verified_token_advantages_come_out(seed: int) -> None:
    policy, store = Wanderer(seed), MemoryStore()
    group = await sample_group(policy)
    while not 1 <= sum(trajectory.success for trajectory in group.trajectories) <= 3:
        group = await sample_group(policy)
    await analyse(store, policy, group, Options(samples=8, weight=1.0, max_turns=10, mode="fixed"))

    analysis = await store.get("a1")
    assert analysis is not None and analysis.status is Status.DONE
    assert analysis.judgement is not None and analysis.verification is not None
    segment, verdict = analysis.judgement.proposals[0].segment, analysis.verification
    assert segment.first_turn <= PIVOT <= segment.last_turn
    assert (verdict.after.successes, verdict.after.samples, verdict.before.samples) == (8, 8, 8)
    assert verdict.delta == 1.0 - verdict.before.successes / 8
    assert verdict.bonus == max(0.0, verdict.delta)
    assert await store.credit("a1") == assign_credit(group, bonuses={segment: verdict.bonus})
