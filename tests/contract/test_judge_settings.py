"""What the judge service may spend on a group: settings of its process, held over real gRPC and real HTTP."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from pydantic import ValidationError

from prover.rpc import convert
from prover.rpc.channels import open_channel
from prover.rpc.clients import JudgeClient
from prover.rpc.v1 import judge_pb2
from prover.store.encoding import analysis, encode
from prover.trajectory import Judgement
from services.judge.config import LlmSettings
from services.judge.question import ProposeLimits
from tests.contract.judge_server import Answer, Request, Script, ScriptedServer, act, say
from tests.unit.judge.builders import bell

PRICES = {"LLM_INPUT_USD": "1000", "LLM_OUTPUT_USD": "2000"}


@asynccontextmanager
async def judge_process(settings: Mapping[str, str]) -> AsyncIterator[JudgeClient]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "services.judge",
        env={**os.environ, "PROVER_JUDGE_PORT": "0", **{f"PROVER_JUDGE_{name}": one for name, one in settings.items()}},
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        said = (await process.stderr.readline()).decode()
        found = re.search(r"listening on 127\.0\.0\.1:(\d+), judges: contrast, llm, random", said)
        assert found is not None, said
        channel = open_channel(f"127.0.0.1:{found[1]}")
        yield JudgeClient(channel)
        await channel.close()
    finally:
        process.terminate()
        await process.wait()


def searches(_: int, request: Request) -> Answer:
    return act(request, "search_trajectory", query="go")


def searches_dearly(_: int, request: Request) -> Answer:
    return replace(searches(0, request), usage={"prompt_tokens": 2000, "completion_tokens": 100})


def babbles(_: int, request: Request) -> Answer:
    return say("I cannot decide.")


def sleeps(_: int, request: Request) -> Answer:
    return Answer(message={"role": "assistant", "content": ""}, delay_s=3.0)


@pytest.mark.parametrize(
    ("settings", "script", "why", "requests"),
    [
        ({"LLM_MAX_MODEL_CALLS": "3"}, searches, "limits: 3 requests", 3),
        ({"LLM_MAX_TOKENS": "5000"}, searches_dearly, "of 5000 tokens are used", None),
        ({"LLM_MAX_REPAIRS": "1"}, babbles, "2 invalid answers", 2),
        ({"LLM_MAX_COST_USD": "7", **PRICES}, searches_dearly, "cost over 7.0 USD", None),
        ({"TIMEOUT_S": "0.5"}, sleeps, "no valid answer within 0.5 s", None),
    ],
    ids=["requests", "tokens", "repairs", "cost", "seconds"],
)
async def test_what_a_group_may_use_is_a_setting_of_the_service(
    settings: dict[str, str], script: Script, why: str, requests: int | None
) -> None:
    with ScriptedServer(script) as model:
        async with judge_process({"LLM_URL": model.url, "LLM_MODEL": "m", **settings}) as client:
            judgement = await client.propose(bell(), judge="llm", timeout_s=30)
        asked = len(model.requests)
    assert why in judgement.no_proposal_reason
    assert asked < ProposeLimits().max_model_calls
    assert requests in (None, asked)
    assert judgement.cost.model_calls == (0 if script is sleeps else asked)
    assert judgement.cost.usd == pytest.approx(2.2 * asked if "LLM_MAX_COST_USD" in settings else 0.0)
    assert judgement.cost.usd <= 7.0


async def test_before_the_money_is_spent_the_model_is_told_to_answer() -> None:
    def script(_: int, request: Request) -> Answer:
        due = "This is your last reply" in str(request["messages"][-1]["content"])
        chosen = {"failure_mode": "f", "trajectory_id": "t1", "first_turn": 2, "last_turn": 2, "reason": "r"}
        return act(request, "answer", **chosen) if due else searches(0, request)

    with ScriptedServer(script) as model:
        settings = {"LLM_URL": model.url, "LLM_MODEL": "m", "LLM_MAX_COST_USD": "10", **PRICES}
        async with judge_process(settings) as client:
            judgement = await client.propose(bell(), judge="llm", timeout_s=30)
    assert judgement.proposals, judgement.no_proposal_reason
    assert 1 < judgement.cost.model_calls < ProposeLimits().max_model_calls
    assert judgement.cost.usd <= 10.0


def test_a_cost_limit_without_both_prices_is_refused_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVER_JUDGE_LLM_MAX_COST_USD", "0.5")
    monkeypatch.setenv("PROVER_JUDGE_LLM_INPUT_USD", "1")
    with pytest.raises(ValidationError, match=r"max_cost_usd: was 0\.5 without prices; expected input_usd and output"):
        LlmSettings()
    monkeypatch.setenv("PROVER_JUDGE_LLM_OUTPUT_USD", "2")
    assert LlmSettings().limits(timeout_s=60.0) == ProposeLimits(max_cost_usd=0.5, timeout_s=60.0)


def test_without_settings_the_limits_are_those_of_the_question() -> None:
    assert LlmSettings().limits(timeout_s=120.0) == ProposeLimits()


def test_a_judgement_of_a_release_that_did_not_count_requests_reads_as_none() -> None:
    answer = judge_pb2.ProposeResponse(judge="llm", no_proposal_reason="r", cost=judge_pb2.JudgeCost(usd=0.25))
    judgement = convert.judgement_from_wire(judge_pb2.ProposeResponse.FromString(answer.SerializeToString()))
    assert (judgement.cost.usd, judgement.cost.model_calls) == (0.25, 0)
    kept = encode("judgement", Judgement(judge="llm", prompt_version="1", proposals=(), no_proposal_reason="r"))
    assert '"model_calls":0' in kept
    record = {"status": "queued", "policy_version": "v0", "created_at": "0", "updated_at": "0", "attempts": "0"}
    record |= {"options": "{}", "judgement": kept.replace(',"model_calls":0', "")}
    read = analysis("a1", record).judgement
    assert read is not None
    assert read.cost.model_calls == 0
