"""What is verified at all: groups without contrast, judges without a proposal, names that nobody knows."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from chain_world import OPTIONS, PIVOTAL, TASK, erring_group, mixed_group, with_turn
from verifier_house import House, open_house

from prover.analysis import Options
from prover.credit.advantages import assign_credit
from prover.lifecycle import Status
from prover.trajectory import Segment
from services.verifier.proposals import weighed


@pytest.fixture
async def house(redis_url: str, tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(redis_url, tmp_path) as opened:
        yield opened


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
    house.judge.segments = ()
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
    house.judge.segments = (segment,)
    await house.begin(await mixed_group())
    analysis = await house.get()
    assert analysis.status is Status.FAILED
    assert "expected" in (analysis.error or "")


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


async def test_the_groups_outcomes_count_at_a_boundary_that_all_of_it_passed_through_and_nowhere_else(
    house: House,
) -> None:
    """All go through room 1; in room 3 only those are left who did not err in room 1."""
    segments = (PIVOTAL, Segment(trajectory_id="t0", first_turn=3, last_turn=3))
    for group, together in (
        (await erring_group(), [True, False]),
        (with_turn(await erring_group(), 0, text="Let me think. Open it."), [False, False]),
    ):
        found = await weighed(house.store, "a1", group, segments)
        assert [one.evidence.begins_with_group for one in found] == together
