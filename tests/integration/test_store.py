"""The store, against a real Redis and real files: every write may come twice, late, or together with another."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from redis.asyncio import Redis

from prover.analysis import Options, Round, Share
from prover.credit.advantages import assign_credit
from prover.lifecycle import MOVES, Status
from prover.store import AnalysisStore, Blobs, follow, open_store
from prover.trajectory import (
    Boundary,
    BoundaryCount,
    Group,
    Judgement,
    Outcome,
    Proposal,
    Segment,
    Task,
    Trajectory,
    Turn,
)

TASK = Task(environment="chain", task_id="generated/1", options={"length": 5, "names": ["a", "b"]})
WON, LOST = Outcome(success=True, reward=1.0, tokens=7), Outcome(success=False, reward=0.0, tokens=9)
JUDGEMENT = Judgement(
    judge="contrast",
    prompt_version="2",
    proposals=(
        Proposal(
            segment=Segment(trajectory_id="t0", first_turn=0, last_turn=0),
            failure_mode="ünïcode\nand lines",
            reason="it works",
            judge="contrast",
        ),
    ),
)


def trajectory(name: str, reward: float) -> Trajectory:
    turns = (Turn(observation="o", text="t", action=None, token_ids=(3, 4), logprobs=(-0.1, -1e-9), digest="d"),)
    return Trajectory(id=name, task=TASK, policy_version="v0", turns=turns, reward=reward, success=reward > 0)


GROUP = Group(task=TASK, policy_version="v0", trajectories=(trajectory("t0", 1.0), trajectory("t1", 0.0)))


@pytest.fixture
async def store(redis_url: str, tmp_path: Path) -> AsyncIterator[AnalysisStore]:
    opened = open_store(redis_url, tmp_path.as_uri())
    yield opened
    await opened.aclose()


async def verifying(store: AnalysisStore, name: str = "a") -> str:
    await store.create(name, GROUP, Options())
    await store.move(name, Status.PROPOSING)
    await store.move(name, Status.VERIFYING, judgement=JUDGEMENT)
    return name


async def test_the_redis_of_the_tests_keeps_what_is_written(redis_url: str) -> None:
    async with Redis.from_url(redis_url, decode_responses=True) as redis:
        assert await redis.config_get("appendonly") == {"appendonly": "yes"}
        assert await redis.dbsize() == 0


async def test_what_is_stored_comes_back_as_it_was(store: AnalysisStore) -> None:
    options = Options(judge="llm", samples=3, weight=0.1, normalise_std=True, reward_range=(-1.0, 1.0))
    created = await store.create("a", GROUP, options)
    assert await store.get("a") == created
    assert await store.group("a") == GROUP
    assert (created.options, created.status) == (options, Status.QUEUED)


async def test_creating_twice_changes_nothing(store: AnalysisStore) -> None:
    await verifying(store)
    again = await store.create("a", GROUP, Options(samples=99))
    assert (again.status, again.options.samples) == (Status.VERIFYING, 8)
    assert len(await store.events("a")) == 3


async def test_only_legal_moves_are_made(store: AnalysisStore) -> None:
    for status in Status:
        for following in Status:
            name = f"{status.value}-{following.value}"
            await store.create(name, GROUP, Options())
            route = {
                Status.QUEUED: [],
                Status.PROPOSING: [Status.PROPOSING],
                Status.VERIFYING: [Status.PROPOSING, Status.VERIFYING],
                Status.DONE: [Status.PROPOSING, Status.DONE],
                Status.NO_PROPOSAL: [Status.PROPOSING, Status.NO_PROPOSAL],
                Status.NOT_RESTORABLE: [Status.PROPOSING, Status.VERIFYING, Status.NOT_RESTORABLE],
            }.get(status, [status])
            for step in route:
                assert await store.move(name, step)
            moved = await store.move(name, following)
            assert moved is (following in MOVES[status]), name
            found = await store.get(name)
            assert found is not None
            assert found.status is (following if moved else status)


async def test_of_two_that_move_at_once_one_wins(store: AnalysisStore) -> None:
    await verifying(store)
    won = await asyncio.gather(*(store.move("a", Status.CANCELLED) for _ in range(10)))
    assert won.count(True) == 1
    assert [event.data["status"] for event in await store.events("a")].count("cancelled") == 1


async def test_a_field_without_a_value_is_left_out(store: AnalysisStore) -> None:
    await store.create("a", GROUP, Options())
    await store.move("a", Status.FAILED, error="why", note=None, judgement=None)
    found = await store.get("a")
    assert found is not None
    assert (found.error, found.note, found.judgement) == ("why", None, None)


async def test_an_outcome_counts_once_however_often_it_is_written(store: AnalysisStore) -> None:
    await verifying(store)
    written = await asyncio.gather(
        *(store.record_outcome("a", side="before", sample=0, outcome=outcome) for outcome in (WON, LOST) * 5)
    )
    assert written.count(True) == 1
    assert await store.record_outcome("a", side="after", sample=0, outcome=LOST)
    assert (await store.count("a", "before")).samples == 1
    assert await store.count("a", "after") == BoundaryCount(successes=0, samples=1, tokens=9)
    assert sum(event.event == "outcome" for event in await store.events("a")) == 2


async def test_outcomes_and_verdicts_of_the_first_release_are_read_and_name_no_version(
    store: AnalysisStore, redis_url: str
) -> None:
    await verifying(store)
    verdict = (
        '[{"before": {"successes": 1, "samples": 2, "tokens": 3}, "after": {"successes": 2, "samples": 2, "tokens": 4},'
        ' "delta": 0.5, "interval": [-0.1, 0.9], "probability_positive": 0.9, "bonus": 0.5, "stopped_because": ""}]'
    )
    async with Redis.from_url(redis_url) as redis:
        await redis.hset("prover:{a}:outcomes", "before:0", '{"success": true, "reward": 1.0, "tokens": 7}')
        await redis.hset("prover:{a}:analysis", "verifications", verdict)
    await store.record_outcome("a", side="before", sample=1, outcome=replace(WON, policy_version="v1"))
    assert await store.count("a", "before") == BoundaryCount(successes=2, samples=2, tokens=14, policy_versions=("v1",))
    found = await store.get("a")
    assert found is not None and found.verification is not None
    assert (found.verification.before.policy_versions, found.verification.after.samples) == ((), 2)


async def test_outcomes_of_an_analysis_that_has_ended_or_is_gone_are_thrown_away(store: AnalysisStore) -> None:
    await verifying(store)
    await store.move("a", Status.CANCELLED)
    assert not await store.record_outcome("a", side="before", sample=0, outcome=WON)
    await store.delete("a")
    assert not await store.record_outcome("a", side="before", sample=0, outcome=WON)
    assert await store.outcomes("a", "before") == {}


async def test_a_round_follows_only_the_present_one(store: AnalysisStore) -> None:
    await verifying(store)
    share = Share(side="before", boundary=Boundary(trajectory_id="t0", turn=1), first=0, total=2)
    first, second = Round(number=1, shares=(share,)), Round(number=2, shares=(replace(share, first=2, total=4),))
    started = await asyncio.gather(*(store.advance_round("a", current=None, following=first) for _ in range(5)))
    assert started.count(True) == 1
    assert await store.advance_round("a", current=first, following=second)
    assert not await store.advance_round("a", current=first, following=second)
    found = await store.get("a")
    assert found is not None
    assert found.round == second


async def test_credit_is_there_when_the_end_is_seen(store: AnalysisStore) -> None:
    await verifying(store)
    with pytest.raises(KeyError, match="credit"):
        await store.credit("a")
    credit = assign_credit(GROUP)
    await store.write_credit("a", credit)
    await store.move("a", Status.DONE)
    assert await store.credit("a") == credit


async def test_who_waits_is_told_at_once(store: AnalysisStore) -> None:
    await verifying(store)
    waiting = asyncio.create_task(store.wait("a", timeout_s=60))
    await asyncio.sleep(0.05)
    await store.move("a", Status.CANCELLED)
    ended = await asyncio.wait_for(waiting, 5)
    assert ended is not None
    assert ended.status is Status.CANCELLED
    assert await store.wait("unknown", timeout_s=60) is None


async def test_following_gives_every_event_once_and_ends(store: AnalysisStore) -> None:
    await verifying(store)

    async def read() -> list[str]:
        return [event.id async for event in follow(store, "a")]

    reading = asyncio.create_task(read())
    for sample in range(1500):
        await store.record_outcome("a", side="before", sample=sample, outcome=WON)
    await store.move("a", Status.DONE)
    ids = await asyncio.wait_for(reading, 30)
    assert len(ids) == len(set(ids)) == 1504
    assert [event.id async for event in follow(store, "a", after=ids[-2])] == ids[-1:]


async def test_following_ends_when_the_analysis_is_deleted(store: AnalysisStore) -> None:
    await verifying(store)
    await store.delete("a")
    assert [event async for event in follow(store, "a")] == []


async def test_keys_are_found_before_they_are_claimed_again(store: AnalysisStore) -> None:
    assert await store.find_key("k") is None
    claims = await asyncio.gather(
        *(store.claim_key("k", analysis_id=f"a{number}", body_digest="d", ttl_s=60) for number in range(5))
    )
    assert len(set(claims)) == 1
    assert await store.find_key("k") == claims[0]


async def test_deleting_leaves_the_others_alone(store: AnalysisStore, tmp_path: Path) -> None:
    await verifying(store, "a")
    await verifying(store, "ab")
    assert await store.delete("a")
    assert not await store.delete("a")
    assert [analysis.id for analysis in await store.recent()] == ["ab"]
    assert await store.group("ab") == GROUP
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("name", ["../x", "a/../../x", "", "a//b", "/etc/x"])
async def test_names_that_leave_the_folder_are_refused(name: str, tmp_path: Path) -> None:
    blobs = Blobs((tmp_path / "blobs").as_uri())
    for attempt in (blobs.write(name, b"x"), blobs.read(name), blobs.delete_all(name)):
        with pytest.raises(ValueError, match="blob name"):
            await attempt


async def test_a_reader_of_a_blob_never_sees_a_part(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path.as_uri())
    old, new = b"o" * 1_000_000, b"n" * 1_000_000
    await blobs.write("a/b", old)

    async def write() -> None:
        for _ in range(10):
            await blobs.write("a/b", new)
            await blobs.write("a/b", old)

    writing = asyncio.create_task(write())
    while not writing.done():
        assert await blobs.read("a/b") in (old, new)
    await writing
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"], "no drafts are left"
