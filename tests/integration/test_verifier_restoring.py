"""Continuations start from the recorded state and context, or the analysis says why not."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from chain_world import OPTIONS, mixed_group, with_turn, without_tokens
from verifier_house import House, open_house

from prover.credit.advantages import assign_credit
from prover.lifecycle import Status
from prover.trajectory import Segment


@pytest.fixture
async def house(redis_url: str, tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(redis_url, tmp_path) as opened:
        yield opened


async def test_continuations_read_the_recorded_context_to_the_letter(house: House) -> None:
    group = await mixed_group()
    await house.begin(group)
    await house.run()
    recorded = {"".join(map(chr, group.trajectories[0].turns[turn].context_token_ids or ())) for turn in (1, 2)}
    assert recorded <= set(house.policy.contexts)
    assert all(any(context.startswith(begun) for begun in recorded) for context in house.policy.contexts)


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
    house.judge.segments = (Segment(trajectory_id="t0", first_turn=2, last_turn=2),)
    await house.begin(group)
    await house.run()
    assert (await house.get()).status is Status.DONE
