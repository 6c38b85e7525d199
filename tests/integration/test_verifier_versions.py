"""Continuations come from the policy that made the group, or the analysis is stale."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from chain_world import OPTIONS, mixed_group
from verifier_house import House, batch, open_house

from prover.credit.advantages import assign_credit
from prover.lifecycle import Status
from prover.queues import CONTINUE_TASK
from services.gateway.answers import analysis_out


@pytest.fixture
async def house(redis_url: str, tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(redis_url, tmp_path) as opened:
        yield opened


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


async def test_the_answer_names_the_groups_version_and_the_one_that_played(house: House) -> None:
    house.policy.version = "v1"
    await house.begin(await mixed_group(version="v0"), replace(OPTIONS, allowed_lag=1))
    await house.run()
    answer = analysis_out(await house.get(), ())
    assert (answer.status, answer.policy_version) == ("done", "v0")
    assert answer.verification is not None
    assert (answer.verification.before.policy_versions, answer.verification.after.policy_versions) == (["v1"], ["v1"])


async def test_both_versions_are_named_where_the_engine_moves_on_between_two_batches(house: House) -> None:
    await house.begin(await mixed_group(version="v0"), replace(OPTIONS, allowed_lag=1))
    for message in house.outbox.take(CONTINUE_TASK):
        await house.continuations.play_batch(batch(message))
        house.policy.version = "v1"
    await house.run()
    verification = analysis_out(await house.get(), ()).verification
    assert verification is not None
    assert (verification.before.policy_versions, verification.after.policy_versions) == (["v0", "v1"], ["v1"])


async def test_a_policy_that_changes_in_mid_batch_leaves_no_outcome_behind(house: House) -> None:
    house.policy.pause_s, house.policy.chance = 0.02, 1.0
    await house.begin(await mixed_group())
    message = house.outbox.take(CONTINUE_TASK)[0]
    playing = asyncio.create_task(house.continuations.play_batch(batch(message)))
    await asyncio.sleep(0.03)
    house.policy.version = "v1"
    await playing
    assert (await house.get()).status is Status.STALE
