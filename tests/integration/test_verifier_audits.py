"""Audited credit: the judge's record is kept, and pays."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from chain_world import OPTIONS, mixed_group
from verifier_house import House, open_house

from prover.credit.advantages import assign_credit
from prover.credit.features import Features, shift_of, told_apart
from prover.lifecycle import Status
from prover.store import JudgeKey
from services.verifier.audits import draw


@pytest.fixture
async def house(redis_url: str, tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(redis_url, tmp_path) as opened:
        yield opened


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


async def test_the_caller_may_have_every_proposal_audited_or_hardly_any(house: House) -> None:
    await house.begin(await mixed_group(), replace(AUDITED, audited_share=1.0), SPARED)
    await house.run()
    verdict = (await house.get(SPARED)).verification
    assert verdict is not None and verdict.before.samples == 1
    assert len(await house.records.audits(KEY)) == 1
    await house.begin(await mixed_group(), replace(AUDITED, audited_share=1e-9), DRAWN)
    spared = (await house.get(DRAWN)).verification
    assert spared is not None and spared.before.samples == 0
    assert spared.bonus == pytest.approx(10 * max(0.0, verdict.delta) / (1 + 8))
    assert len(await house.records.audits(KEY)) == 1


async def test_the_share_of_audits_is_a_quarter() -> None:
    drawn = sum(draw(f"analysis {number}") < 0.25 for number in range(4000))
    assert abs(drawn / 4000 - 0.25) < 4 * (0.25 * 0.75 / 4000) ** 0.5


async def test_old_audits_leave_the_window(house: House) -> None:
    await remember(house, [1.0] * 10 + [0.0] * 64)
    assert [audit.delta for audit in await house.records.audits(KEY)] == [0.0] * 64


async def test_a_proposal_is_paid_by_what_audits_of_its_like_have_shown(house: House) -> None:
    """The judge was right where groups succeed as seldom as this one, two of eight, and wrong with the others."""
    like, unlike = (Features(kind="", rate=rate, position="first") for rate in ("up to 1/4", "above 1/4"))
    for number in range(128):
        features, delta = (like, float(number % 4 != 2)) if number % 2 == 0 else (unlike, 0.0)
        await house.records.add(KEY, analysis_id=f"old{number}", delta=delta, features=features)
    audits = await house.records.audits(KEY, limit=256)
    shift = shift_of(like, told_apart([(audit.features or unlike, audit.delta) for audit in audits]))
    assert shift > 0.1
    await house.begin(await mixed_group(), AUDITED, SPARED)
    verdict = (await house.get(SPARED)).verification
    assert verdict is not None
    assert verdict.bonus == pytest.approx(10 * (16 / (64 + 8) + shift))
    assert f"{shift:+.3f} for proposals like this one" in verdict.stopped_because


async def test_an_audit_keeps_what_its_proposal_was_like_as_long_as_it_is_kept_itself(house: House) -> None:
    await house.begin(await mixed_group(), AUDITED, DRAWN)
    await house.run()
    (audit,) = await house.records.audits(KEY)
    assert audit.features == Features(kind="", rate="up to 1/4", position="first")
    await remember(house, [0.0])
    assert [one.features for one in await house.records.audits(KEY)] == [audit.features, None]
