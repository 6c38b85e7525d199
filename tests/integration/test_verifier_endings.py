"""An analysis ends once, and its advantages are those of the end that it has, whoever else wanted another one."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from chain_world import PIVOTAL, mixed_group
from verifier_house import House, open_house

from prover.credit.advantages import assign_credit
from prover.lifecycle import Status
from prover.trajectory import BoundaryCount, Judgement, Proposal, Segment, Verification
from services.verifier.endings import Endings
from services.verifier.metrics import Metrics

JUDGEMENT = Judgement(
    judge="contrast",
    prompt_version="1",
    proposals=(Proposal(segment=PIVOTAL, failure_mode="the trap", reason="the right door", judge="contrast"),),
)
GAINED = Verification(
    before=BoundaryCount(successes=0, samples=4),
    after=BoundaryCount(successes=4, samples=4),
    delta=1.0,
    interval=(0.5, 1.0),
    probability_positive=0.99,
    bonus=1.0,
    stopped_because="all continuations were played",
)


@pytest.fixture
async def house(redis_url: str, tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(redis_url, tmp_path) as opened:
        yield opened


async def test_what_fails_after_the_end_takes_no_credit_away(house: House) -> None:
    group = await mixed_group()
    worth_all = Segment(trajectory_id="t0", first_turn=3, last_turn=3)
    house.policy.wrong_in, house.judge.segments = (3,), (worth_all,)
    await house.begin(group)
    await house.run()
    await Endings(house.store, Metrics()).failed("a1", "a batch that somebody else had played by then")
    analysis = await house.get()
    assert (analysis.status, analysis.error) == (Status.DONE, None)
    assert await house.store.credit("a1") == assign_credit(group, bonuses={worth_all: 1.0})


@pytest.mark.parametrize("first", range(4))
async def test_of_two_ends_at_once_the_credit_is_that_of_the_end_which_counts(house: House, first: int) -> None:
    """The one is a verdict, the other a worker that finds the engine moved on; they meet at every step of the way."""
    group, endings = await mixed_group(), Endings(house.store, Metrics())
    for number in range(10):
        analysis_id = await house.begin(group, analysis_id=f"a{first}-{number}")
        analysis = await house.get(analysis_id)

        async def stale(after: int, analysis=analysis) -> None:
            for _ in range(after):
                await asyncio.sleep(0)
            await endings.plain(analysis, group, Status.STALE, error="the engine moved on")

        await asyncio.gather(endings.verified(analysis, group, JUDGEMENT, (GAINED,)), stale(number + 10 * first))
        ended = await house.get(analysis_id)
        bonuses = {PIVOTAL: 1.0} if ended.status is Status.DONE else None
        assert ended.status in (Status.DONE, Status.STALE)
        assert await house.store.credit(analysis_id) == assign_credit(group, bonuses=bonuses)


async def test_what_was_found_of_a_judges_proposals_is_counted_once_an_end(house: House) -> None:
    group, metrics = await mixed_group(), Metrics()
    endings = Endings(house.store, metrics)
    lost, unseen = replace(GAINED, delta=-0.25), replace(GAINED, before=BoundaryCount(successes=0, samples=0))
    for number, verdict in enumerate((GAINED, replace(GAINED, delta=0.5), replace(GAINED, delta=0.0), lost, unseen)):
        analysis = await house.get(await house.begin(group, analysis_id=f"m{number}"))
        for _ in range(2):
            await endings.verified(analysis, group, JUDGEMENT, (verdict,))
    found = {
        sign: [
            metrics.registry.get_sample_value(f"prover_verifier_verified_{name}", {"judge": "contrast", "sign": sign})
            for name in ("proposals_total", "delta_total")
        ]
        for sign in ("positive", "zero", "negative")
    }
    assert found == {"positive": [2.0, 1.5], "zero": [1.0, 0.0], "negative": [1.0, 0.25]}
