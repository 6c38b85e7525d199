"""Continuations that are kept: real HTTP, a real Redis, the real coordinator and worker."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from chain_world import OPTIONS, PIVOTAL, ChainPolicy, FixedJudge, Outbox, mixed_group

from prover.analysis import Options
from prover.client import AsyncProverClient, ProblemError, continuations_to_nouns
from prover.environments import make
from prover.queues import CONTINUE_TASK
from prover.trajectory import Ending, Group
from services.verifier.continuations import Batch, Continuations
from services.verifier.endings import Endings
from services.verifier.metrics import Metrics
from services.verifier.player import World
from services.verifier.verifier import Coordinator
from tests.rest_server import RunningGateway, running_gateway

KEPT = replace(OPTIONS, policy="embedded", keep_continuations=True)


@dataclass
class Service:
    """A gateway and the verifier's parts, with the messages between them in the test's hands."""

    gateway: RunningGateway
    client: AsyncProverClient
    policy: ChainPolicy
    outbox: Outbox
    coordinator: Coordinator
    worker: Continuations

    async def begin(self, group: Group, options: Options = KEPT) -> str:
        analysis_id = await self.client.submit(group, options)
        await self.coordinator.analyze(analysis_id)
        return analysis_id

    async def run(self, *, times: int = 1) -> None:
        """Delivers messages until none are left, batches `times` times at once."""
        while self.outbox.sent:
            task, arguments = self.outbox.sent.pop(0)
            if task != CONTINUE_TASK:
                await self.coordinator.decide(str(arguments[0]), int(str(arguments[1])))
                continue
            analysis_id, number, side, first, samples = map(str, arguments)
            batch = Batch(
                analysis_id=analysis_id, number=int(number), side=side, first_sample=int(first), samples=int(samples)
            )
            await asyncio.gather(*(self.worker.play_batch(batch) for _ in range(times)))


@pytest.fixture
async def service(redis_url: str, tmp_path: Path) -> AsyncIterator[Service]:
    serving = running_gateway(redis_url, tmp_path, check_task=lambda _: None)
    async with serving as gateway, AsyncProverClient(gateway.url) as client:
        policy, outbox, metrics = ChainPolicy(), Outbox(), Metrics()
        endings = Endings(gateway.store, metrics)
        world = World(policies={"embedded": policy}, make_environment=make)
        yield Service(
            gateway=gateway,
            client=client,
            policy=policy,
            outbox=outbox,
            coordinator=Coordinator(gateway.store, FixedJudge(), outbox, endings),
            worker=Continuations(gateway.store, world, outbox, endings, metrics),
        )


async def test_every_continuation_comes_back_with_its_advantage_among_its_siblings(service: Service) -> None:
    group = await mixed_group()
    analysis_id = await service.begin(group)
    await service.run()
    answer = await service.client.continuations(analysis_id)
    assert [(kept["side"], kept["trajectory_id"], kept["before_turn"]) for kept in answer["boundaries"]] == [
        ("before", "t0", PIVOTAL.first_turn),
        ("after", "t0", PIVOTAL.last_turn + 1),
    ]
    verdict = (await service.client.get(analysis_id))["verification"]
    assert verdict is not None
    credited = continuations_to_nouns(answer)
    assert [one.trajectory.id for one in credited] == [f"{side}-{n}" for side in ("before", "after") for n in range(4)]
    for side, members in (("before", credited[:4]), ("after", credited[4:])):
        wins = sum(one.trajectory.success for one in members)
        assert wins == verdict[side]["successes"]
        for one in members:
            trajectory = one.trajectory
            assert (trajectory.task, trajectory.policy_version, trajectory.ending) == (
                group.task,
                "v0",
                Ending.FINISHED,
            )
            assert one.credit.group_advantage == pytest.approx(trajectory.reward - wins / 4)
            for turn, credit in zip(trajectory.turns, one.credit.turns, strict=True):
                assert turn.token_ids is not None
                assert turn.logprobs is not None
                assert credit.token_advantages == (one.credit.group_advantage,) * len(turn.token_ids)
    sampled = sum(len(turn.token_ids or ()) for one in credited for turn in one.trajectory.turns)
    assert sampled == verdict["tokens"]["before"] + verdict["tokens"]["after"]
    first_contexts = {one.trajectory.turns[0].context_token_ids for one in credited[:4]}
    assert first_contexts == {group.trajectories[0].turns[PIVOTAL.first_turn].context_token_ids}


async def test_only_the_continuation_whose_outcome_counts_is_kept(service: Service, tmp_path: Path) -> None:
    service.policy.pause_s = 0.002
    analysis_id = await service.begin(await mixed_group())
    await service.run(times=3)
    credited = continuations_to_nouns(await service.client.continuations(analysis_id))
    verdict = (await service.client.get(analysis_id))["verification"]
    assert verdict is not None
    assert len(credited) == 8
    assert sum(one.trajectory.success for one in credited[:4]) == verdict["before"]["successes"]
    assert sum(one.trajectory.success for one in credited[4:]) == verdict["after"]["successes"]
    assert len(list(tmp_path.rglob("continuation-*.json"))) == 8


async def test_the_advantages_of_the_group_are_the_same_with_and_without(service: Service) -> None:
    group = await mixed_group()
    service.policy.chance = 1.0
    ids = [await service.begin(group, replace(KEPT, keep_continuations=keep)) for keep in (True, False)]
    await service.run()
    with_them, without = [await service.client.advantages(analysis_id) for analysis_id in ids]
    assert with_them == without
    with pytest.raises(ProblemError) as refused:
        await service.client.continuations(ids[1])
    assert (refused.value.status, refused.value.kind) == (409, "not-kept")


async def test_they_come_once_the_analysis_has_ended_and_go_with_it(service: Service, tmp_path: Path) -> None:
    analysis_id = await service.begin(await mixed_group())
    with pytest.raises(ProblemError) as early:
        await service.client.continuations(analysis_id)
    assert (early.value.status, early.value.kind) == (409, "not-ended")
    await service.run()
    await service.client.delete(analysis_id)
    with pytest.raises(ProblemError) as gone:
        await service.client.continuations(analysis_id)
    assert gone.value.status == 404
    assert not list(tmp_path.rglob("continuation-*.json"))


async def test_where_nothing_was_played_nothing_was_kept(service: Service) -> None:
    analysis_id = await service.begin(await mixed_group(successes=0))
    assert await service.client.continuations(analysis_id) == {"boundaries": []}


async def test_a_caller_that_plays_keeps_its_own(service: Service) -> None:
    with pytest.raises(ProblemError) as refused:
        await service.client.submit(await mixed_group(), replace(KEPT, continuations="external"))
    assert [mistake["field"] for mistake in refused.value.mistakes] == ["options.keep_continuations"]
