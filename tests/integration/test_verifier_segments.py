"""Several segments of a group, and mistakes of its failed runs: values are known, and everything counts once.

TASK has traps in rooms 1 and 3 and the policy is right half of the time: V is 0.25 up to room 1, 0.5 up to room 3 and 1
from room 4 on; once trapped it is 0.
"""

import random
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from chain_world import LATE, OPTIONS, PIVOTAL, erring_group, mixed_group, without_tokens
from verifier_house import House, open_house

from prover.credit.advantages import assign_credit
from prover.lifecycle import Status
from prover.queues import CONTINUE_TASK
from prover.trajectory import Segment

FIRST = Segment(trajectory_id="t0", first_turn=1, last_turn=2)
"""Worth 0.25."""
SECOND = Segment(trajectory_id="t0", first_turn=3, last_turn=3)
"""Worth 0.5, and it begins where the first one ends."""
MISTAKE = Segment(trajectory_id="t2", first_turn=1, last_turn=1)
"""The wrong door of room 1: worth -0.25 where it is felt late."""
LATER_MISTAKE = Segment(trajectory_id="t6", first_turn=3, last_turn=3)
"""The wrong door of room 3: worth -0.5."""

SEVERAL = replace(OPTIONS, proposals=2)
SIGNED = replace(OPTIONS, credit="signed", weight=2.0)


@pytest.fixture
async def house(redis_url: str, tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(redis_url, tmp_path) as opened:
        yield opened


async def test_each_segment_is_verified_for_itself_and_paid_on_its_own_tokens(house: House) -> None:
    """This policy always falls into the trap of room 3: nothing is worth anything up to there, and all of it beyond."""
    house.judge.segments = (SECOND, FIRST)
    house.policy.wrong_in = (3,)
    group = await mixed_group()
    await house.begin(group, replace(SEVERAL, weight=3.0))
    await house.run()
    analysis = await house.get()
    assert analysis.status is Status.DONE
    second, first = analysis.verifications
    assert analysis.verification == second
    assert (second.delta, second.bonus) == (1.0, 3.0)
    assert (first.delta, first.bonus) == (0.0, 0.0)
    assert first.after == second.before
    assert await house.store.credit("a1") == assign_credit(group, bonuses={SECOND: 3.0})


async def test_segments_that_meet_share_the_continuations_of_their_boundary(house: House) -> None:
    house.judge.segments = (FIRST, SECOND)
    await house.begin(await mixed_group(), SEVERAL)
    asked = {(side, first) for _, _, side, first, _ in (arguments for _, arguments in house.outbox.sent)}
    assert {side for side, _ in asked} == {"before", "after", "after-2"}
    await house.run()
    events = await house.store.events("a1")
    assert sum(event.event == "outcome" for event in events) == 3 * 4


@pytest.mark.parametrize("mode", ["fixed", "frugal", "adaptive"])
@pytest.mark.parametrize("seed", range(2))
async def test_of_several_segments_every_outcome_counts_once_in_any_order(house: House, mode: str, seed: int) -> None:
    shuffled = random.Random(seed)
    house.judge.segments = (FIRST, SECOND)
    await house.begin(await mixed_group(), replace(SEVERAL, mode=mode))
    for _ in range(100):
        if not house.outbox.sent:
            break
        at = shuffled.randrange(len(house.outbox.sent))
        task, arguments = house.outbox.sent[at]
        if shuffled.random() < 0.5:
            house.outbox.sent.pop(at)
        await house.deliver(task, arguments)
    await house.run()
    analysis = await house.get()
    assert analysis.status is Status.DONE
    counted = {side: await house.store.count("a1", side) for side in ("before", "after", "after-2")}
    first, second = analysis.verifications
    assert (first.before, first.after) == (counted["before"], counted["after"])
    assert (second.before, second.after) == (counted["after"], counted["after-2"])
    assert all(count.samples <= 4 for count in counted.values())


async def test_a_budget_holds_for_all_segments_together(house: House) -> None:
    house.judge.segments = (PIVOTAL, SECOND)
    await house.begin(await mixed_group(), replace(SEVERAL, mode="adaptive", samples=16, budget=14))
    await house.run()
    analysis = await house.get()
    sides = ("before", "after", "before-2", "after-2")
    played = [(await house.store.count("a1", side)).samples for side in sides]
    assert all(samples >= 2 for samples in played)
    assert sum(played) <= 14
    assert len(analysis.verifications) == 2


async def test_only_as_many_as_were_asked_for_are_verified(house: House) -> None:
    house.judge.segments = (FIRST, MISTAKE, SECOND)
    group = await erring_group(LATE)
    await house.begin(group, OPTIONS)
    await house.run()
    analysis = await house.get()
    assert analysis.judgement is not None
    assert [proposal.segment for proposal in analysis.judgement.proposals] == [FIRST]
    assert len(analysis.verifications) == 1


async def test_segments_that_share_a_turn_are_the_judges_failure(house: House) -> None:
    house.judge.segments = (FIRST, PIVOTAL)
    await house.begin(await mixed_group(), SEVERAL)
    analysis = await house.get()
    assert analysis.status is Status.FAILED
    assert "share a turn" in (analysis.error or "")


async def test_contexts_that_were_rebuilt_are_named_for_every_segment(house: House) -> None:
    house.judge.segments = (FIRST, SECOND)
    await house.begin(without_tokens(await mixed_group()), SEVERAL)
    await house.run()
    analysis = await house.get()
    assert analysis.status is Status.DONE
    assert "before turn 1 and 3 and 4 of 't0'" in (analysis.note or "")


async def test_a_verified_mistake_of_a_failed_run_is_charged_what_it_lost(house: House) -> None:
    house.judge.segments = (FIRST, MISTAKE)
    house.policy.wrong_in = ()
    group = await erring_group(LATE)
    await house.begin(group, SIGNED)
    await house.run()
    analysis = await house.get()
    assert analysis.status is Status.DONE
    success, mistake = analysis.verifications
    assert (success.delta, success.bonus) == (0.0, 0.0)
    assert (mistake.before.successes, mistake.after.successes) == (4, 0)
    assert (mistake.delta, mistake.bonus) == (-1.0, -2.0)
    assert await house.store.credit("a1") == assign_credit(group, bonuses={MISTAKE: -2.0})


async def test_adaptive_charges_less_than_was_seen_and_knows_the_sign(house: House) -> None:
    house.policy.chance = 0.9
    house.judge.segments = (LATER_MISTAKE,)
    await house.begin(await erring_group(LATE), replace(SIGNED, mode="adaptive", samples=16, weight=1.0))
    await house.run()
    (mistake,) = (await house.get()).verifications
    assert -0.9 < mistake.bonus < -0.4
    assert mistake.interval[1] < 0.0
    assert mistake.probability_positive < 0.05


async def test_a_segment_of_a_failed_run_that_was_no_mistake_is_charged_nothing(house: House) -> None:
    harmless = Segment(trajectory_id="t6", first_turn=0, last_turn=0)
    house.judge.segments = (harmless,)
    house.policy.wrong_in = ()
    group = await erring_group(LATE)
    await house.begin(group, SIGNED)
    await house.run()
    (verdict,) = (await house.get()).verifications
    assert (verdict.delta, verdict.bonus) == (0.0, 0.0)
    assert await house.store.credit("a1") == assign_credit(group)


async def test_without_signed_credit_nobody_verifies_a_failed_run(house: House) -> None:
    house.judge.segments = (MISTAKE,)
    group = await erring_group(LATE)
    await house.begin(group, OPTIONS)
    analysis = await house.get()
    assert analysis.status is Status.NO_PROPOSAL
    assert analysis.judgement is not None
    assert "credit is not signed" in analysis.judgement.no_proposal_reason
    assert not house.outbox.take(CONTINUE_TASK)
    assert await house.store.credit("a1") == assign_credit(group)


@pytest.mark.parametrize("changed", [{"proposals": 2}, {"credit": "signed"}])
async def test_the_judges_record_is_of_first_proposals_alone(house: House, changed: dict[str, object]) -> None:
    await house.begin(await mixed_group(), replace(OPTIONS, mode="audited", samples=1, **changed))
    analysis = await house.get()
    assert analysis.status is Status.FAILED
    assert "expected one proposal and positive credit" in (analysis.error or "")


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fixed", "adaptive"])
async def test_stated_intervals_hold_the_exact_advantages_at_their_rate(house: House, mode: str) -> None:
    """90% intervals, 60 analyses of a success' two segments and a mistake: 0.25, 0.5 and -0.25.

    Those of `fixed` for every segment; those of `adaptive`, whose prior is of no one segment, for all of them together.
    """
    house.judge.segments = (FIRST, SECOND, MISTAKE)
    group, truths = await erring_group(LATE), (0.25, 0.5, -0.25)
    held, deltas = [0, 0, 0], [0.0, 0.0, 0.0]
    options = replace(SEVERAL, mode=mode, samples=8, credit="signed")
    for number in range(60):
        await house.begin(group, options, analysis_id=f"c{number}")
        await house.run()
        verdicts = (await house.get(f"c{number}")).verifications
        for index, (verdict, truth) in enumerate(zip(verdicts, truths, strict=True)):
            held[index] += verdict.interval[0] <= truth <= verdict.interval[1]
            deltas[index] += verdict.delta / 60
    assert sum(held) >= 162 - 3 * (180 * 0.9 * 0.1) ** 0.5
    if mode == "fixed":
        assert min(held) >= 54 - 3 * (60 * 0.9 * 0.1) ** 0.5
        errors = [abs(delta - truth) for delta, truth in zip(deltas, truths, strict=True)]
        assert max(errors) < 4 * ((0.1875 + 0.25) / 8 / 60) ** 0.5
