"""What verification says of a chain, held against the values that are known."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from chain_world import OPTIONS, mixed_group
from verifier_house import House, open_house


@pytest.fixture
async def house(redis_url: str, tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(redis_url, tmp_path) as opened:
        yield opened


async def test_the_exact_advantage_comes_out_within_its_sampling_error(house: House) -> None:
    await house.begin(await mixed_group(), replace(OPTIONS, samples=200))
    await house.run()
    verdict = (await house.get()).verification
    assert verdict is not None
    assert abs(verdict.delta - 0.25) < 4 * (2 * 0.25 / 200) ** 0.5
    assert verdict.interval[0] < 0.25 < verdict.interval[1]


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
