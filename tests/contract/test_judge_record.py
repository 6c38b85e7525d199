"""A judge's verified record over real HTTP, through the client, the command line and Prometheus."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from prover.client import AsyncProverClient, ProblemError, ProverClient
from prover.credit.audited import Audited
from prover.credit.features import Features
from prover.credit.record import mean_interval
from prover.credit.rules import Evidence
from prover.store import JudgeKey
from services.gateway.examples import RECORD_EXAMPLE
from services.gateway.record_answers import JudgeRecordOut
from tests.rest_server import RunningGateway, running_gateway

KEY = JudgeKey(judge="contrast", prompt_version="1", environment="alfworld", policy="embedded")


@pytest.fixture
async def gateway(redis_url: str, tmp_path: Path) -> AsyncIterator[RunningGateway]:
    async with running_gateway(redis_url, tmp_path) as running:
        yield running


@pytest.fixture
async def client(gateway: RunningGateway) -> AsyncIterator[AsyncProverClient]:
    async with AsyncProverClient(gateway.url) as opened:
        yield opened


async def audited(gateway: RunningGateway, deltas: list[float], key: JudgeKey = KEY) -> None:
    for number, delta in enumerate(deltas):
        await gateway.records.add(key, analysis_id=f"a{number}", delta=delta)


async def test_a_record_says_what_audits_have_found_and_what_is_paid_for_it(
    gateway: RunningGateway, client: AsyncProverClient
) -> None:
    await audited(gateway, [1.0, 0.0, 0.0, -1.0, 1.0, 1.0, 0.0, 0.0])
    answer = await client.judge_record("contrast")
    assert {name: answer[name] for name in ("judge", "mode", "lambda", "window")} == {
        "judge": "contrast",
        "mode": "audited",
        "lambda": 10.0,
        "window": 64,
    }
    (record,) = answer["records"]
    assert (record["prompt_version"], record["environment"], record["policy"]) == ("1", "alfworld", "embedded")
    assert (record["audits"], record["window"]["audits"]) == (8, 8)
    assert record["mean_delta"] == 0.25
    assert record["record"] == pytest.approx(2 / (8 + 8))
    assert record["next_bonus"] == pytest.approx(10 * 2 / (8 + 8))
    assert record["acceptance_rate"] == 3 / 8
    low, high = record["interval"]
    assert -1 < low < 0.25 < high < 1
    assert record["window"]["first_at"] is not None
    assert record["window"]["last_at"] is not None
    assert record["window"]["first_at"] < record["window"]["last_at"]


async def test_what_is_told_to_be_paid_next_is_what_the_mode_pays(
    gateway: RunningGateway, client: AsyncProverClient
) -> None:
    deltas = [1.0] * 5 + [0.0] * 70 + [1.0, -1.0, 1.0]
    await audited(gateway, deltas)
    (record,) = (await client.judge_record("contrast"))["records"]
    spared = Evidence(group_successes=2, group_size=8, draw=0.9, record=tuple(deltas))
    assert record["next_bonus"] == pytest.approx(Audited().settle(spared, samples=1, weight=10.0).bonus)
    assert (record["audits"], record["window"]["audits"], record["mean_delta"]) == (78, 64, 1 / 64)


async def test_prompts_environments_and_engines_have_records_of_their_own(
    gateway: RunningGateway, client: AsyncProverClient
) -> None:
    await audited(gateway, [1.0])
    others = (
        JudgeKey(judge="contrast", prompt_version="2", environment="alfworld", policy="embedded"),
        JudgeKey(judge="contrast", prompt_version="1", environment="chain", policy="embedded"),
        JudgeKey(judge="contrast", prompt_version="1", environment="alfworld", policy="large"),
        JudgeKey(judge="llm", prompt_version="1", environment="alfworld", policy="embedded"),
    )
    for key in others:
        await audited(gateway, [-1.0], key)
    records = (await client.judge_record("contrast"))["records"]
    assert len(records) == 4
    assert sorted(record["mean_delta"] for record in records) == [-1.0, -1.0, -1.0, 1.0]
    assert [record["next_bonus"] for record in (await client.judge_record("llm"))["records"]] == [0.0]


async def test_a_judge_that_was_never_audited_has_no_records(client: AsyncProverClient) -> None:
    assert (await client.judge_record("llm"))["records"] == []


async def test_a_judge_that_nobody_knows_is_a_problem_that_names_the_known_ones(client: AsyncProverClient) -> None:
    with pytest.raises(ProblemError) as refused:
        await client.judge_record("psychic")
    assert (refused.value.status, refused.value.kind) == (404, "no-such-judge")
    assert refused.value.mistakes == [{"field": "judge", "was": "'psychic'", "expected": "one of contrast, llm"}]


async def test_a_record_outlives_the_judge_that_made_it(gateway: RunningGateway, client: AsyncProverClient) -> None:
    await audited(gateway, [1.0], JudgeKey(judge="retired", prompt_version="", environment="alfworld", policy="large"))
    assert len((await client.judge_record("retired"))["records"]) == 1


async def test_prometheus_sees_each_record_with_its_audits(gateway: RunningGateway) -> None:
    await audited(gateway, [1.0] * 5 + [-1.0, 0.0, 0.0])
    async with httpx.AsyncClient(base_url=gateway.url) as http:
        text = (await http.get("/metrics")).text
    labels = '{environment="alfworld",judge="contrast",policy="embedded",prompt_version="1"}'
    assert f"prover_gateway_judge_record{labels} 0.25\n" in text
    assert f"prover_gateway_judge_audits{labels} 8.0\n" in text
    assert f"prover_gateway_judge_acceptance{labels} 0.625\n" in text
    assert f"prover_gateway_judge_mean_delta{labels} 0.5\n" in text
    low, _ = mean_interval([1.0] * 5 + [-1.0, 0.0, 0.0])
    assert f"prover_gateway_judge_mean_delta_low{labels} {low}\n" in text


async def test_a_record_that_nothing_has_joined_for_a_day_raises_no_alarm(gateway: RunningGateway) -> None:
    await audited(gateway, [-1.0] * 20)
    await gateway.redis.zincrby("prover:records:latest", -25 * 3600, '["contrast", "1", "alfworld", "embedded"]')
    async with httpx.AsyncClient(base_url=gateway.url) as http:
        text = (await http.get("/metrics")).text
    assert "prover_gateway_judge_record{" not in text
    assert "prover_gateway_judge_audits{" not in text
    assert "prover_gateway_judge_mean_delta_low{" not in text


async def test_the_command_line_shows_a_record(gateway: RunningGateway) -> None:
    await audited(gateway, [1.0, 0.0])
    shown = await run_cli("judge-record", "contrast", "--url", gateway.url)
    assert shown.returncode == 0, shown.stderr
    for words in ("contrast", "alfworld", "2 of 2", "+0.500", "+1.000"):
        assert words in shown.stdout
    document = await run_cli("judge-record", "contrast", "--json", "--url", gateway.url)
    assert json.loads(document.stdout)["records"][0]["mean_delta"] == 0.5
    nothing = await run_cli("judge-record", "llm", "--url", gateway.url)
    assert nothing.stdout == "judge llm has not been audited yet\n"
    unknown = await run_cli("judge-record", "psychic", "--url", gateway.url)
    assert unknown.returncode == 1
    assert "one of contrast, llm" in unknown.stderr


async def test_where_a_judge_is_better_than_elsewhere_is_shown(
    gateway: RunningGateway, client: AsyncProverClient
) -> None:
    for number in range(128):
        kind, delta = ("heat", float(number % 4 != 2)) if number % 2 == 0 else ("look", 0.0)
        features = Features(kind=kind, rate="up to 1/4", position="first")
        await gateway.records.add(KEY, analysis_id=f"a{number}", delta=delta, features=features)
    (record,) = (await client.judge_record("contrast"))["records"]
    told = {(one["feature"], one["value"]): one for one in record["features"]}
    heat, look = told["kind", "heat"], told["kind", "look"]
    assert (heat["audits"], heat["mean_delta"]) == (64, 0.5)
    assert 0.1 < heat["shift"] == pytest.approx(-look["shift"])
    assert told["rate", "up to 1/4"]["shift"] == 0.0
    shown = await run_cli("judge-record", "contrast", "--url", gateway.url)
    for words in ("heat", "look", f"{heat['shift']:+.3f}"):
        assert words in shown.stdout


async def run_cli(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs `prover` in a thread: the gateway serves from this one."""
    command = [sys.executable, "-c", "from prover.cli import main; main()", *arguments]
    environment = {**os.environ, "COLUMNS": "200"}
    return await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, env=environment, timeout=60, check=False
    )


async def test_the_waiting_client_asks_the_same(gateway: RunningGateway) -> None:
    await audited(gateway, [1.0])
    with ProverClient(gateway.url) as client:
        answer = await asyncio.to_thread(client.judge_record, "contrast")
    assert answer["records"][0]["mean_delta"] == 1.0


def test_the_example_of_the_openapi_document_is_an_answer() -> None:
    example = {("weight" if name == "lambda" else name): value for name, value in RECORD_EXAMPLE.items()}
    answer = JudgeRecordOut.model_validate(example)
    assert json.loads(answer.model_dump_json(by_alias=True)) == RECORD_EXAMPLE
