"""The model judge stays within its limits: requests, tokens, cost, seconds and any context."""

import json
from dataclasses import replace

import pytest

from services.judge.interview import Prices
from services.judge.question import ProposeLimits
from tests.contract.judge_asks import GOOD, PROTOCOLS, ask, check, good
from tests.contract.judge_server import Answer, Request, act
from tests.unit.judge.builders import group, trajectory


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_endless_tool_calls_end_at_the_limit(protocol: str) -> None:
    limits = ProposeLimits(max_model_calls=5, timeout_s=20)
    judgement, requests = await ask(
        lambda _, request: act(request, "search_trajectory", query="go", k=2), protocol=protocol, limits=limits
    )
    assert len(requests) == 5
    assert judgement.no_proposal_reason.startswith("limits: 5 requests")
    assert "last reply" in requests[4]["messages"][-1]["content"]
    assert "last reply" not in requests[3]["messages"][-1]["content"]


async def test_the_last_request_offers_nothing_but_the_answer() -> None:
    limits = ProposeLimits(max_model_calls=2, timeout_s=20)
    _, requests = await ask(lambda _, request: act(request, "search_trajectory", query="go"), limits=limits)
    offered = [[tool["function"]["name"] for tool in request["tools"]] for request in requests]
    assert offered == [["search_trajectory", "get_segment", "answer"], ["answer"]]


async def test_a_swarm_of_calls_in_one_reply_is_cut() -> None:
    def script(number: int, request: Request) -> Answer:
        if number:
            return good(request)
        function = {"name": "search_trajectory", "arguments": '{"query": "go"}'}
        calls = [{"id": f"c{index}", "type": "function", "function": function} for index in range(50)]
        return Answer(message={"role": "assistant", "content": None, "tool_calls": calls})

    judgement, requests = await ask(script)
    assert judgement.cost.tool_calls == 4
    answered = [message for message in requests[1]["messages"] if message["role"] == "tool"]
    assert [message["tool_call_id"] for message in answered] == [f"c{index}" for index in range(50)]
    assert "at most 4 calls" in answered[-1]["content"]


async def test_tokens_are_bounded_whatever_the_server_counts() -> None:
    limits = ProposeLimits(max_tokens=20_000, timeout_s=20)
    judgement, requests = await ask(
        lambda _, request: replace(
            act(request, "search_trajectory", query="go"), usage={"prompt_tokens": 10**12, "completion_tokens": 1}
        ),
        limits=limits,
    )
    assert len(requests) == 1
    assert "of 20000 tokens are used" in judgement.no_proposal_reason


async def test_a_server_that_does_not_count_is_counted_for() -> None:
    judgement, _ = await ask(lambda _, request: replace(good(request), usage=None))
    assert judgement.cost.input_tokens > 500
    assert judgement.cost.output_tokens > 10


async def test_cost_is_reported_and_bounded() -> None:
    prices = Prices(input_usd=1000.0, output_usd=2000.0)
    paid, _ = await ask(lambda _, request: good(request), prices=prices)
    assert paid.cost.usd == pytest.approx(0.12)
    dear, requests = await ask(
        lambda _, request: replace(
            act(request, "search_trajectory", query="go"), usage={"prompt_tokens": 2000, "completion_tokens": 100}
        ),
        prices=prices,
        limits=ProposeLimits(max_cost_usd=7.0, timeout_s=20),
    )
    assert 1 <= len(requests) < 16
    assert "cost over 7.0 USD" in dear.no_proposal_reason
    assert dear.cost.usd <= 7.0


async def test_a_cost_limit_without_prices_is_the_callers_mistake() -> None:
    with pytest.raises(ValueError, match=r"max_cost_usd: was 1\.0 without prices"):
        await ask(lambda _, request: good(request), limits=ProposeLimits(max_cost_usd=1.0))


async def test_silence_ends_at_the_time_limit() -> None:
    limits = ProposeLimits(timeout_s=0.3)
    judgement, _ = await ask(lambda _, request: replace(good(request), delay_s=1.0), limits=limits)
    assert judgement.no_proposal_reason.startswith("limits: no valid answer within 0.3 s")


@pytest.mark.parametrize(("protocol", "context_tokens"), [("native", 4_096), ("text", 4_096), ("native", 32_768)])
async def test_a_long_group_fits_a_small_context(protocol: str, context_tokens: int) -> None:
    wide = " ".join(f"word{index}" for index in range(1000))
    runs = [trajectory(f"t{run}", [f"do {run} {turn} {wide}" for turn in range(50)]) for run in range(15)]
    whole = group(trajectory("won", [f"do 7 {turn} {wide}" for turn in range(50)], success=True), *runs)

    def script(number: int, request: Request) -> Answer:
        if number < 9:
            return act(request, "get_segment", traj_id="t3", start_turn=number, end_turn=49)
        return act(request, "answer", **{**GOOD, "trajectory_id": "won"})

    judgement, requests = await ask(
        script,
        protocol=protocol,
        whole=whole,
        context_tokens=context_tokens,
        reply_tokens=512,
        limits=ProposeLimits(max_tokens=10**7, timeout_s=60),
    )
    check(judgement, whole)
    assert judgement.proposals
    for request in requests:
        said = json.dumps({name: value for name, value in request.items() if name != "model"})
        assert len(said) / 3 + 512 <= context_tokens * 1.2
