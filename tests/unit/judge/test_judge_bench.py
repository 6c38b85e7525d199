"""The measurement of judges: its saved groups, and what it says of two judges."""

from pathlib import Path

import pytest

from bench.judge_groups import load, save
from bench.judges import Case, measure, measured_cases
from prover.credit.eligibility import anchor, eligible
from prover.trajectory import BoundaryCount
from tests.unit.judge.builders import bell


def test_saved_groups_are_eligible_and_measured_at_every_boundary() -> None:
    saved = load()
    assert len(saved) >= 20
    for known in saved:
        runs = known.group.trajectories
        assert eligible(sum(run.success for run in runs), len(runs))
        assert all(count.samples >= 64 for count in known.boundaries)
        assert known.boundaries[-1].successes == known.boundaries[-1].samples
        assert all(turn.digest for run in runs for turn in run.turns)


def test_a_saved_group_comes_back_as_it_was(tmp_path: Path) -> None:
    saved = load()[:3]
    path = tmp_path / "groups.json.gz"
    save(saved, path)
    assert load(path) == saved


def bell_with(rates: list[float]) -> Case:
    counts = tuple(BoundaryCount(successes=round(64 * rate), samples=64) for rate in rates)
    return Case(groups_of="bells", group=bell(), boundaries=counts)


@pytest.mark.parametrize(
    ("rates", "acceptance", "positive", "delta"),
    [
        ([0.1, 0.1, 0.1, 0.9, 0.9, 0.9, 1.0], 1.0, 1.0, 0.8),
        ([0.5, 0.5, 0.5, 0.53, 0.53, 0.53, 1.0], 0.0, 1.0, 0.03),
        ([0.5, 0.5, 0.5, 0.4, 0.4, 0.4, 1.0], 0.0, 0.0, -0.1),
    ],
)
async def test_a_proposal_is_accepted_where_the_interval_is_above_zero(
    rates: list[float], acceptance: float, positive: float, delta: float
) -> None:
    (row,) = await measure("bells", [bell_with(rates)], ["contrast"], draws=1)
    assert (row["acceptance"], row["positive"]) == (acceptance, positive)
    assert row["delta"] == pytest.approx(delta, abs=0.02)


async def test_on_saved_groups_contrast_is_accepted_far_more_often_than_random() -> None:
    cases = [case for case in measured_cases() if len(anchor(case.group).turns) <= 30][:16]
    contrast, chance = await measure("ALFWorld", cases, ["contrast", "random"], draws=4)
    assert float(str(contrast["acceptance"])) > 2 * float(str(chance["acceptance"]))
