"""Rounds of continuations: whatever is lost, late, twice or stopped, every outcome counts once."""

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from chain_world import OPTIONS, PIVOTAL, mixed_group
from verifier_house import House, batch, open_house

from prover.credit.advantages import assign_credit
from prover.lifecycle import END_STATES, Status
from prover.policies.policy import PolicyError
from prover.queues import CONTINUE_TASK, DECIDE_TASK
from prover.trajectory import Outcome


@pytest.fixture
async def house(redis_url: str, tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(redis_url, tmp_path) as opened:
        yield opened


async def test_a_group_goes_in_and_verified_advantages_come_out(house: House) -> None:
    group = await mixed_group()
    await house.begin(group)
    await house.run()
    analysis = await house.get()
    assert analysis.status is Status.DONE
    verdict = analysis.verification
    assert verdict is not None
    assert (verdict.before.samples, verdict.after.samples) == (4, 4)
    assert verdict.delta == (verdict.after.successes - verdict.before.successes) / 4
    assert verdict.bonus == max(verdict.delta, 0.0)
    assert verdict.before.tokens > 0
    assert await house.store.credit("a1") == assign_credit(group, bonuses={PIVOTAL: verdict.bonus})
    assert analysis.note is None


@pytest.mark.parametrize("seed", range(5))
async def test_messages_twice_late_and_in_any_order_count_once(house: House, seed: int) -> None:
    shuffled = random.Random(seed)
    await house.begin(await mixed_group())
    for _ in range(200):
        if not house.outbox.sent:
            break
        at = shuffled.randrange(len(house.outbox.sent))
        task, arguments = house.outbox.sent[at]
        if shuffled.random() < 0.5:
            house.outbox.sent.pop(at)
        await house.deliver(task, arguments)
        if shuffled.random() < 0.2:
            await house.coordinator.analyze("a1")
    await house.run()
    analysis = await house.get()
    assert analysis.status is Status.DONE
    assert analysis.verification is not None
    assert (analysis.verification.before.samples, analysis.verification.after.samples) == (4, 4)
    counted = [await house.store.count("a1", side) for side in ("before", "after")]
    assert counted == [analysis.verification.before, analysis.verification.after]


async def test_two_workers_with_the_same_batch_record_each_sample_once(house: House) -> None:
    await house.begin(await mixed_group())
    messages = house.outbox.take(CONTINUE_TASK)
    await asyncio.gather(*(house.continuations.play_batch(batch(message)) for message in [*messages, *messages]))
    counts = [await house.store.count("a1", side) for side in ("before", "after")]
    assert [count.samples for count in counts] == [4, 4]
    events = await house.store.events("a1")
    assert sum(event.event == "outcome" for event in events) == 8


async def test_only_missing_samples_are_sent_again(house: House) -> None:
    await house.begin(await mixed_group())
    house.outbox.take(CONTINUE_TASK)
    for sample in (0, 2):
        outcome = Outcome(success=True, reward=1.0, tokens=3)
        await house.store.record_outcome("a1", side="before", sample=sample, outcome=outcome)
    await house.coordinator.analyze("a1")
    again = house.outbox.take(CONTINUE_TASK)
    assert again == [
        ("a1", 1, "before", 1, 1),
        ("a1", 1, "before", 3, 1),
        ("a1", 1, "after", 0, 2),
        ("a1", 1, "after", 2, 2),
    ]


async def test_a_coordinator_that_died_while_the_judge_was_reading_is_replaced(house: House) -> None:
    await house.store.create("a1", await mixed_group(), OPTIONS)
    await house.store.move("a1", Status.PROPOSING)
    await house.coordinator.analyze("a1")
    await house.run()
    assert (await house.get()).status is Status.DONE
    assert house.judge.asked == 1


async def test_a_decision_that_was_lost_is_taken_at_the_next_look(house: House) -> None:
    await house.begin(await mixed_group())
    for message in house.outbox.take(CONTINUE_TASK):
        await house.continuations.play_batch(batch(message))
    house.outbox.take(DECIDE_TASK)
    await house.coordinator.analyze("a1")
    assert (await house.get()).status is Status.DONE


async def test_a_worker_that_died_after_its_last_record_still_brings_the_decision(house: House) -> None:
    await house.begin(await mixed_group())
    messages = house.outbox.take(CONTINUE_TASK)
    for message in messages:
        await house.continuations.play_batch(batch(message))
    house.outbox.take(DECIDE_TASK)
    await house.continuations.play_batch(batch(messages[0]))
    assert house.outbox.take(DECIDE_TASK) == [("a1", 1)]


async def test_a_cancelled_analysis_stops_sampling(house: House) -> None:
    house.policy.pause_s = 0.05
    await house.begin(await mixed_group())
    messages = house.outbox.take(CONTINUE_TASK)
    playing = asyncio.create_task(house.continuations.play_batch(batch(messages[0])))
    await asyncio.sleep(0.01)
    await house.store.move("a1", Status.CANCELLED)
    await playing
    sampled = len(house.policy.contexts)
    for message in messages:
        await house.continuations.play_batch(batch(message))
    assert len(house.policy.contexts) == sampled
    assert not house.outbox.sent
    assert (await house.store.count("a1", "before")).samples == 0


async def test_an_engine_that_is_down_leaves_what_was_played_and_may_be_tried_again(house: House) -> None:
    await house.begin(await mixed_group())
    message = house.outbox.take(CONTINUE_TASK)[0]
    house.policy.failures = 1
    with pytest.raises(PolicyError):
        await house.continuations.play_batch(batch(message))
    assert (await house.store.count("a1", "before")).samples == 1
    await house.continuations.play_batch(batch(message))
    assert (await house.store.count("a1", "before")).samples == 2


async def test_a_message_about_nothing_is_dropped(house: House) -> None:
    await house.coordinator.analyze("nobody")
    await house.coordinator.decide("nobody", 1)
    await house.continuations.play_batch(batch(("nobody", 1, "before", 0, 2)))
    assert not house.outbox.sent


async def test_a_deleted_analysis_stays_deleted(house: House) -> None:
    await house.begin(await mixed_group())
    await house.store.delete("a1")
    await house.run()
    assert await house.store.get("a1") is None
    assert (await house.store.count("a1", "before")).samples == 0


async def test_outside_continuations_are_left_to_the_outside(house: House) -> None:
    await house.begin(await mixed_group(), replace(OPTIONS, continuations="external"))
    assert not house.outbox.sent
    for side, success in (("before", False), ("after", True)):
        for sample in range(4):
            outcome = Outcome(success=success, reward=float(success), tokens=1)
            await house.store.record_outcome("a1", side=side, sample=sample, outcome=outcome)
    await house.coordinator.decide("a1", 1)
    analysis = await house.get()
    assert analysis.verification is not None
    assert analysis.verification.delta == 1.0


async def test_every_analysis_of_many_ends(house: House) -> None:
    for number in range(10):
        await house.begin(await mixed_group(successes=number % 4), analysis_id=f"a{number}")
    await house.run()
    statuses = [(await house.get(f"a{number}")).status for number in range(10)]
    assert set(statuses) <= END_STATES
    assert statuses.count(Status.NOT_ELIGIBLE) == 3


async def test_adaptive_plays_rounds_until_it_knows_enough(house: House) -> None:
    house.policy.chance = 1.0
    await house.begin(await mixed_group(), replace(OPTIONS, mode="adaptive", samples=8))
    assert house.outbox.sent == [(CONTINUE_TASK, ("a1", 1, "before", 0, 2)), (CONTINUE_TASK, ("a1", 1, "after", 0, 2))]
    await house.run()
    analysis = await house.get()
    assert analysis.verification is not None
    verdict = analysis.verification
    assert verdict.before.samples + verdict.after.samples < 16
    assert verdict.stopped_because.split(":")[0] in ("precision", "futility")


async def test_a_next_round_that_was_decided_but_never_sent_is_sent_when_the_decision_comes_again(house: House) -> None:
    await house.begin(await mixed_group(), replace(OPTIONS, mode="adaptive", samples=8))
    house.outbox.take(CONTINUE_TASK)
    for side, success in (("before", False), ("after", True)):
        for sample in range(2):
            outcome = Outcome(success=success, reward=float(success), tokens=1)
            await house.store.record_outcome("a1", side=side, sample=sample, outcome=outcome)
    await house.coordinator.decide("a1", 1)
    sent = house.outbox.take(CONTINUE_TASK)
    assert sent
    await house.coordinator.decide("a1", 1)
    assert not house.outbox.sent
    await house.coordinator.decide("a1", 1, again=True)
    assert house.outbox.take(CONTINUE_TASK) == sent


async def test_a_batch_of_a_round_that_is_over_is_dropped(house: House) -> None:
    await house.begin(await mixed_group(), replace(OPTIONS, mode="adaptive", samples=8))
    first = house.outbox.sent[0][1]
    await house.run()
    sampled = len(house.policy.contexts)
    await house.continuations.play_batch(batch(first))
    assert len(house.policy.contexts) == sampled
