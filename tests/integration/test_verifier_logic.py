"""The verifier's logic on a real Redis, without processes: what happens to an analysis, whatever happens around it."""

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from chain_world import OPTIONS, PIVOTAL, TASK, ChainPolicy, FixedJudge, Outbox, mixed_group, with_turn, without_tokens

from prover.analysis import Analysis, Options
from prover.credit.advantages import assign_credit
from prover.environments import make
from prover.lifecycle import END_STATES, Status
from prover.policies.policy import PolicyError
from prover.queues import CONTINUE_TASK, DECIDE_TASK
from prover.store import AnalysisStore, JudgeKey, JudgeRecords, open_records, open_store
from prover.trajectory import Group, Outcome, Segment
from services.verifier.audits import Audits, draw
from services.verifier.continuations import Batch, Continuations
from services.verifier.endings import Endings
from services.verifier.metrics import Metrics
from services.verifier.player import World
from services.verifier.verifier import Coordinator


@dataclass
class House:
    """The verifier's parts, with the messages between them in the test's hands."""

    store: AnalysisStore
    policy: ChainPolicy
    judge: FixedJudge
    outbox: Outbox
    coordinator: Coordinator
    continuations: Continuations
    records: JudgeRecords

    async def begin(self, group: Group, options: Options = OPTIONS, analysis_id: str = "a1") -> str:
        await self.store.create(analysis_id, group, options)
        await self.coordinator.analyze(analysis_id)
        return analysis_id

    async def get(self, analysis_id: str = "a1") -> Analysis:
        analysis = await self.store.get(analysis_id)
        assert analysis is not None
        return analysis

    async def deliver(self, task: str, arguments: tuple[object, ...]) -> None:
        if task == CONTINUE_TASK:
            await self.continuations.play_batch(batch(arguments))
        elif task == DECIDE_TASK:
            await self.coordinator.decide(str(arguments[0]), int(str(arguments[1])))
        else:
            await self.coordinator.analyze(str(arguments[0]))

    async def run(self) -> None:
        """Delivers messages until none are left."""
        while self.outbox.sent:
            await self.deliver(*self.outbox.sent.pop(0))


def batch(arguments: tuple[object, ...]) -> Batch:
    analysis_id, number, side, first, samples = arguments
    return Batch(
        analysis_id=str(analysis_id),
        number=int(str(number)),
        side=str(side),
        first_sample=int(str(first)),
        samples=int(str(samples)),
    )


@pytest.fixture
async def house(redis_url: str, tmp_path: Path) -> AsyncIterator[House]:
    store = open_store(redis_url, f"file://{tmp_path}")
    policy, judge, outbox, metrics = ChainPolicy(), FixedJudge(), Outbox(), Metrics()
    endings = Endings(store, metrics)
    records = open_records(redis_url)
    world = World(policies={"chain": policy}, make_environment=make)
    yield House(
        store=store,
        policy=policy,
        judge=judge,
        outbox=outbox,
        coordinator=Coordinator(store, judge, outbox, endings, audits=Audits(records), batch_samples=2),
        records=records,
        continuations=Continuations(store, world, outbox, endings, metrics, check_every_s=0.02),
    )


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
    assert await house.store.credit("a1") == assign_credit(group, segment=PIVOTAL, bonus=verdict.bonus)
    assert analysis.note is None


async def test_the_exact_advantage_comes_out_within_its_sampling_error(house: House) -> None:
    await house.begin(await mixed_group(), replace(OPTIONS, samples=200))
    await house.run()
    verdict = (await house.get()).verification
    assert verdict is not None
    assert abs(verdict.delta - 0.25) < 4 * (2 * 0.25 / 200) ** 0.5
    assert verdict.interval[0] < 0.25 < verdict.interval[1]


async def test_continuations_read_the_recorded_context_to_the_letter(house: House) -> None:
    group = await mixed_group()
    await house.begin(group)
    await house.run()
    recorded = {"".join(map(chr, group.trajectories[0].turns[turn].context_token_ids or ())) for turn in (1, 2)}
    assert recorded <= set(house.policy.contexts)
    assert all(any(context.startswith(begun) for begun in recorded) for context in house.policy.contexts)


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


@pytest.mark.parametrize(("successes", "size"), [(0, 8), (8, 8), (5, 8)])
async def test_a_group_without_contrast_keeps_its_own_advantages(house: House, successes: int, size: int) -> None:
    group = await mixed_group(successes=successes, size=size)
    await house.begin(group)
    analysis = await house.get()
    assert analysis.status is Status.NOT_ELIGIBLE
    assert analysis.note is not None
    assert await house.store.credit("a1") == assign_credit(group)
    assert not house.outbox.sent
    assert house.judge.asked == 0


async def test_no_proposal_keeps_the_group_advantages_and_the_reason(house: House) -> None:
    house.judge.segment = None
    group = await mixed_group()
    await house.begin(group)
    analysis = await house.get()
    assert analysis.status is Status.NO_PROPOSAL
    assert analysis.judgement is not None
    assert analysis.judgement.no_proposal_reason == "nothing recurs"
    assert await house.store.credit("a1") == assign_credit(group)


@pytest.mark.parametrize(
    "segment",
    [
        Segment(trajectory_id="t9", first_turn=0, last_turn=0),
        Segment(trajectory_id="t0", first_turn=4, last_turn=4),
        Segment(trajectory_id="t0", first_turn=7, last_turn=9),
    ],
)
async def test_a_segment_that_cannot_be_is_the_judges_failure(house: House, segment: Segment) -> None:
    house.judge.segment = segment
    await house.begin(await mixed_group())
    analysis = await house.get()
    assert analysis.status is Status.FAILED
    assert "expected" in (analysis.error or "")


async def test_another_observation_than_recorded_is_not_restorable_and_both_are_shown(house: House) -> None:
    group = with_turn(await mixed_group(), 1, observation="You are in a cave.")
    await house.begin(group)
    await house.run()
    analysis = await house.get()
    assert analysis.status is Status.NOT_RESTORABLE
    assert "turn 1" in (analysis.error or "")
    assert "You are in a cave." in (analysis.error or "")
    assert "You are in room 1 of 5." in (analysis.error or "")
    assert await house.store.credit("a1") == assign_credit(group)


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"digest": "0123"}, "digest"), ({"context_token_ids": (1, 2, 3)}, "context_token_ids: from token 0")],
)
async def test_another_state_or_context_is_not_restorable(house: House, changes: dict[str, object], said: str) -> None:
    await house.begin(with_turn(await mixed_group(), 1, **changes))
    await house.run()
    analysis = await house.get()
    assert analysis.status is Status.NOT_RESTORABLE
    assert said in (analysis.error or "")


async def test_a_recorded_game_that_ends_too_early_is_not_restorable(house: House) -> None:
    lost = (await mixed_group()).trajectories[-1]
    group = with_turn(await mixed_group(), 1, action=lost.turns[1].action)
    await house.begin(group)
    await house.run()
    analysis = await house.get()
    assert analysis.status is Status.NOT_RESTORABLE
    assert "is over" in (analysis.error or "")


async def test_prompts_around_the_observation_are_accepted_where_the_caller_says_so(house: House) -> None:
    group = without_tokens(await mixed_group())
    first = group.trajectories[0]
    for index, turn in enumerate(first.turns):
        group = with_turn(group, index, observation=f"SYSTEM. {turn.observation} What now?")
    await house.begin(group, replace(OPTIONS, fidelity="contains"))
    await house.run()
    assert (await house.get()).status is Status.DONE


async def test_texts_alone_are_enough_and_the_answer_says_that_contexts_were_rebuilt(house: House) -> None:
    group = await mixed_group()
    await house.begin(without_tokens(group))
    await house.run()
    analysis = await house.get()
    assert analysis.status is Status.DONE
    assert "rebuilt the context from the recorded texts" in (analysis.note or "")
    begun = "".join(map(chr, group.trajectories[0].turns[1].context_token_ids or ()))
    assert begun in house.policy.contexts


async def test_a_thought_is_stepped_over(house: House) -> None:
    group = without_tokens(await mixed_group())
    first, *others = group.trajectories
    thought = replace(first.turns[0], text="Let me think.", action=None, digest=None)
    group = replace(group, trajectories=(replace(first, turns=(thought, *first.turns)), *others))
    house.judge.segment = Segment(trajectory_id="t0", first_turn=2, last_turn=2)
    await house.begin(group)
    await house.run()
    assert (await house.get()).status is Status.DONE


async def test_a_policy_that_has_moved_on_is_stale_and_both_versions_are_named(house: House) -> None:
    house.policy.version = "v1"
    group = await mixed_group(version="v0")
    await house.begin(group)
    await house.run()
    analysis = await house.get()
    assert analysis.status is Status.STALE
    assert "'v0'" in (analysis.error or "")
    assert "'v1'" in (analysis.error or "")
    assert await house.store.credit("a1") == assign_credit(group)


async def test_a_lag_that_the_caller_allows_is_no_reason_to_stop(house: House) -> None:
    house.policy.version = "v2"
    await house.begin(await mixed_group(version="v0"), replace(OPTIONS, allowed_lag=2))
    await house.run()
    assert (await house.get()).status is Status.DONE


async def test_a_policy_that_changes_in_mid_batch_leaves_no_outcome_behind(house: House) -> None:
    house.policy.pause_s, house.policy.chance = 0.02, 1.0
    await house.begin(await mixed_group())
    message = house.outbox.take(CONTINUE_TASK)[0]
    playing = asyncio.create_task(house.continuations.play_batch(batch(message)))
    await asyncio.sleep(0.03)
    house.policy.version = "v1"
    await playing
    assert (await house.get()).status is Status.STALE


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


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (replace(OPTIONS, policy="nobody"), "options.policy"),
        (replace(OPTIONS, agent="nobody"), "agent"),
        (replace(OPTIONS, mode="nobody"), "options.mode"),
        (replace(OPTIONS, fidelity="nobody"), "options.fidelity"),
        (replace(OPTIONS, agent="chatml"), "stop text"),
    ],
)
async def test_what_is_unknown_is_named(house: House, options: Options, named: str) -> None:
    await house.begin(await mixed_group(), options)
    await house.run()
    analysis = await house.get()
    assert analysis.status in (Status.FAILED, Status.NOT_RESTORABLE)
    assert named in (analysis.error or "") or "Choose the agent" in (analysis.error or "")


async def test_an_unknown_task_fails_with_its_name(house: House) -> None:
    group = await mixed_group()
    task = replace(TASK, task_id="../../etc")
    trajectories = tuple(replace(trajectory, task=task) for trajectory in group.trajectories)
    await house.begin(replace(group, task=task, trajectories=trajectories))
    await house.run()
    analysis = await house.get()
    assert analysis.status is Status.FAILED
    assert "'../../etc'" in (analysis.error or "")


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


AUDITED = replace(OPTIONS, mode="audited", samples=1, weight=10.0)
KEY = JudgeKey(judge="contrast", prompt_version="1", environment="chain", policy="chain")
DRAWN = next(f"a{number}" for number in range(100) if draw(f"a{number}") < 0.25)
SPARED = next(f"a{number}" for number in range(100) if draw(f"a{number}") >= 0.25)


async def remember(house: House, deltas: list[float]) -> None:
    for number, delta in enumerate(deltas):
        await house.records.add(KEY, analysis_id=f"old{number}", delta=delta)


async def test_a_proposal_that_is_not_audited_is_paid_by_the_record_without_a_continuation(house: House) -> None:
    await remember(house, [1.0, 0.0, 1.0, 0.0])
    await house.begin(await mixed_group(), AUDITED, SPARED)
    analysis = await house.get(SPARED)
    verdict = analysis.verification
    assert analysis.status is Status.DONE
    assert verdict is not None
    assert not house.outbox.sent
    assert verdict.bonus == pytest.approx(10 * 2 / (4 + 8))
    assert (verdict.before.samples, verdict.after.samples) == (0, 0)
    assert "nothing is known of this segment itself" in verdict.stopped_because
    assert len(await house.records.audits(KEY)) == 4


async def test_an_audit_joins_the_record_once_and_weighs_as_much_as_any_other(house: House) -> None:
    await remember(house, [1.0, 1.0])
    await house.begin(await mixed_group(), AUDITED, DRAWN)
    await house.run()
    verdict = (await house.get(DRAWN)).verification
    assert verdict is not None
    assert verdict.bonus == pytest.approx(10 * (2 + verdict.delta) / (3 + 8))
    await house.coordinator.decide(DRAWN, 1, again=True)
    await house.coordinator.analyze(DRAWN)
    audits = await house.records.audits(KEY)
    assert [audit.delta for audit in audits] == [1.0, 1.0, verdict.delta]
    assert await house.records.keys("contrast") == (KEY,)


async def test_a_judge_without_a_good_record_is_paid_nothing(house: House) -> None:
    await remember(house, [-1.0, 0.0])
    group = await mixed_group()
    await house.begin(group, AUDITED, SPARED)
    assert await house.store.credit(SPARED) == assign_credit(group)


async def test_the_share_of_audits_is_a_quarter() -> None:
    drawn = sum(draw(f"analysis {number}") < 0.25 for number in range(4000))
    assert abs(drawn / 4000 - 0.25) < 4 * (0.25 * 0.75 / 4000) ** 0.5


async def test_old_audits_leave_the_window(house: House) -> None:
    await remember(house, [1.0] * 10 + [0.0] * 64)
    assert [audit.delta for audit in await house.records.audits(KEY)] == [0.0] * 64


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fixed", "adaptive"])
async def test_the_stated_interval_holds_the_exact_advantage_at_its_stated_rate(house: House, mode: str) -> None:
    """V before is 0.25 and after 0.5; 90% intervals, 100 analyses."""
    group = await mixed_group()
    held, deltas = 0, []
    for number in range(100):
        await house.begin(group, replace(OPTIONS, mode=mode, samples=8), analysis_id=f"b{number}")
        await house.run()
        verdict = (await house.get(f"b{number}")).verification
        assert verdict is not None
        held += verdict.interval[0] <= 0.25 <= verdict.interval[1]
        deltas.append(verdict.delta)
    assert held >= 90 - 3 * 3
    if mode == "fixed":
        assert abs(sum(deltas) / 100 - 0.25) < 4 * ((0.1875 + 0.25) / 8 / 100) ** 0.5
