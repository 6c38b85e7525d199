"""The measurement of judges: its saved groups, and what it says of two judges."""

from pathlib import Path

import pytest

from bench.judge_groups import load, save
from bench.judges import Case, endpoint_of, measure, measured_cases, parse
from prover.credit.eligibility import anchor, eligible
from prover.trajectory import BoundaryCount
from tests.contract.judge_server import Answer, Request, ScriptedServer, act
from tests.unit.judge.builders import bell

PRICED = ("--input-usd-per-million", "1000", "--output-usd-per-million", "2000", "--context", "8192")


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


@pytest.mark.parametrize(("protocol", "native"), [("native", True), ("text", False)])
async def test_a_model_behind_a_key_is_measured_with_its_cost(
    monkeypatch: pytest.MonkeyPatch, protocol: str, native: bool
) -> None:
    def script(number: int, request: Request) -> Answer:
        if number % 2 == 0:
            return act(request, "search_trajectory", query="chest", k=3)
        chosen = {"failure_mode": "f", "trajectory_id": "t1", "first_turn": 2, "last_turn": 2, "reason": "r"}
        return act(request, "answer", **chosen)

    monkeypatch.setenv("MY_KEY", "s3cret")
    cases = [
        bell_with([0.1, 0.1, 0.1, 0.9, 0.9, 0.9, 1.0]),
        bell_with([0.5, 0.5, 0.5, 0.4, 0.4, 0.4, 1.0]),
    ]
    with ScriptedServer(script) as server:
        options = parse(
            ["--llm-url", server.url, "--llm-model", "m", "--api-key-env", "MY_KEY", "--protocol", protocol, *PRICED]
        )
        endpoint = endpoint_of(options)
        assert endpoint is not None and endpoint.context_tokens == 8192
        (row,) = await measure("bells", cases, ["llm"], draws=1, endpoint=endpoint)
    assert server.authorizations == ["Bearer s3cret"] * 4
    assert all(("tools" in request) == native for request in server.requests)
    assert (row["judgements"], row["no_proposal"], row["model_calls"], row["tokens"]) == (2, 0, 2.0, 220.0)
    assert row["usd"] == pytest.approx(2 * (100 * 1000 + 10 * 2000) / 1e6)
    assert "s3cret" not in repr(options)


def test_without_an_address_no_model_is_asked() -> None:
    assert endpoint_of(parse([])) is None


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--api-key-env", "NO_SUCH_VARIABLE"], "NO_SUCH_VARIABLE is not set"),
        (["--input-usd-per-million", "1"], "expected both, or neither"),
    ],
)
def test_options_that_do_not_fit_are_refused(argv: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--llm-url", "http://127.0.0.1:9/v1", "--llm-model", "m", *argv])
    assert says in capsys.readouterr().err
