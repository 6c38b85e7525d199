"""The model judge against a scripted server over real HTTP: good, sloppy and hostile."""

import json
from dataclasses import replace

import pytest

from prover.credit.eligibility import anchor
from prover.credit.segments import segment_fault
from prover.trajectory import Group, Judgement
from services.judge.interview import Prices
from services.judge.llm import Endpoint, Llm
from services.judge.protocols import prompt_version
from services.judge.question import ProposeLimits
from tests.contract.judge_server import Answer, Request, Script, ScriptedServer, act, say
from tests.unit.judge.builders import bell, group, trajectory

GOOD = {
    "failure_mode": "nobody opened the chest",
    "trajectory_id": "t1",
    "first_turn": 2,
    "last_turn": 2,
    "reason": "it is opened",
}
PROTOCOLS = ("native", "text")


def good(request: Request, **changes: object) -> Answer:
    return act(request, "answer", **{**GOOD, **changes})


async def ask(
    script: Script,
    *,
    protocol: str = "auto",
    limits: ProposeLimits | None = None,
    whole: Group | None = None,
    **fields: object,
) -> tuple[Judgement, list[Request]]:
    with ScriptedServer(script) as server:
        endpoint = replace(Endpoint(url=server.url, model="m", protocol=protocol), **fields)
        judgement = await Llm(endpoint).propose(whole or bell(), limits or ProposeLimits(timeout_s=20))
        return judgement, server.requests


def check(judgement: Judgement, whole: Group | None = None) -> None:
    """A valid proposal, or a reason: what every case must end in."""
    assert judgement.proposals or judgement.no_proposal_reason
    for proposal in judgement.proposals:
        assert segment_fault(proposal.segment, anchor(whole or bell())) is None


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_good_judge_searches_reads_and_answers(protocol: str) -> None:
    def script(number: int, request: Request) -> Answer:
        if number == 0:
            return act(request, "search_trajectory", query="chest", k=3)
        if number == 1:
            return act(request, "get_segment", traj_id="t0", start_turn=0, end_turn=1)
        return good(request)

    judgement, requests = await ask(script, protocol=protocol)
    proposal = judgement.proposals[0]
    assert (proposal.segment.first_turn, proposal.segment.last_turn) == (2, 2)
    assert (proposal.judge, proposal.prompt_version, proposal.repairs) == ("llm", prompt_version(), 0)
    cost = judgement.cost
    assert (cost.input_tokens, cost.output_tokens, cost.tool_calls, cost.invalid_answers) == (300, 30, 2, 0)
    hits, page = (request["messages"][-1]["content"] for request in requests[1:])
    assert "go chest 1" in hits
    assert '"trajectory": "t0", "turn": 1' in page


async def test_the_anchor_is_whole_and_failed_runs_are_previews() -> None:
    _, requests = await ask(lambda _, request: good(request))
    first = requests[0]["messages"][1]["content"]
    assert all(f'"action": "{turn.action}"' in first for turn in anchor(bell()).turns)
    assert all(f'"trajectory": "{name}"' in first for name in ("t0", "t2", "t3"))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"last_turn": 99}, "expected at most 4"),
        ({"first_turn": -1}, "expected 0 <= first_turn"),
        ({"first_turn": 3, "last_turn": 1}, "expected 0 <= first_turn"),
        ({"first_turn": 5, "last_turn": 5}, "no action comes after it"),
        ({"first_turn": 0, "last_turn": 4}, "5 actions; expected at most 4"),
        ({"trajectory_id": "t0"}, "expected the successful trajectory, 't1'"),
        ({"trajectory_id": "nobody"}, "trajectory_id: was 'nobody'"),
        ({"first_turn": "two"}, "first_turn: "),
        ({"first_turn": 1.5}, "first_turn: "),
        ({"first_turn": None}, "first_turn: "),
        ({"first_turn": 10**400}, "first_turn"),
        ({"failure_mode": ""}, "failure_mode: "),
        ({"reason": ["a list"]}, "reason: "),
    ],
)
async def test_an_invalid_answer_goes_back_with_the_reason_and_is_repaired(
    protocol: str, changes: dict[str, object], says: str
) -> None:
    judgement, requests = await ask(
        lambda number, request: good(request, **(changes if number == 0 else {})), protocol=protocol
    )
    assert judgement.proposals[0].repairs == 1
    assert judgement.cost.invalid_answers == 1
    assert says in requests[1]["messages"][-1]["content"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_after_three_repairs_there_is_no_proposal(protocol: str) -> None:
    judgement, requests = await ask(lambda _, request: good(request, last_turn=50), protocol=protocol)
    assert len(requests) == 4
    assert judgement.no_proposal_reason.startswith("4 invalid answers; the last answer was invalid: last_turn: was 50")


SLOPPY = {
    "bad json": '{"tool": "answer", "first_turn": ',
    "empty": "",
    "prose": "I would choose the second turn, since it is lovely.",
    "a list": "[1, 2, 3]",
    "a number": "42",
    "unknown tool": '{"tool": "rm", "path": "/"}',
    "nameless": '{"thought": "hm"}',
    "deep": '{"a":' * 3000,
    "braces": "{" * 20000,
    "wrong types": '{"tool": {"x": 1}, "query": []}',
    "name is a list": '{"name": ["answer"], "arguments": "none"}',
    "null": "null",
    "nothing inside": '{"call": {}}',
    "surrogate": '{"tool": "search_trajectory", "query": "\\ud800"}',
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", SLOPPY)
async def test_a_sloppy_reply_is_answered_and_may_be_made_good(protocol: str, name: str) -> None:
    judgement, requests = await ask(
        lambda number, request: good(request) if number else say(SLOPPY[name]), protocol=protocol
    )
    assert len(judgement.proposals) == 1
    assert len(requests) == 2


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", SLOPPY)
async def test_a_judge_that_is_always_sloppy_ends_without_a_proposal(protocol: str, name: str) -> None:
    judgement, requests = await ask(lambda *_: say(SLOPPY[name]), protocol=protocol)
    assert judgement.proposals == ()
    assert judgement.no_proposal_reason
    assert len(requests) <= ProposeLimits().max_model_calls


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
        lambda _, request: act(request, "search_trajectory", query="go"),
        prices=prices,
        limits=ProposeLimits(max_cost_usd=7.0, timeout_s=20),
    )
    assert 1 <= len(requests) < 16
    assert "cost over 7.0 USD" in dear.no_proposal_reason
    assert dear.cost.usd <= 7.0


async def test_a_cost_limit_without_prices_is_the_callers_mistake() -> None:
    with pytest.raises(ValueError, match=r"max_cost_usd: was 1\.0 without prices"):
        await ask(lambda _, request: good(request), limits=ProposeLimits(max_cost_usd=1.0))


@pytest.mark.parametrize("failure", [Answer(status=429, headers={"Retry-After": "0"}), Answer(status=503)])
async def test_what_passes_is_tried_again(failure: Answer) -> None:
    judgement, requests = await ask(lambda number, request: good(request) if number > 1 else failure)
    assert len(judgement.proposals) == 1
    assert len(requests) == 3


@pytest.mark.parametrize(
    ("answer", "says", "sent"),
    [
        (Answer(status=429, raw=b"slow down"), "answered 429: slow down", 4),
        (Answer(status=500, raw=b"\xff\x00broken"), "answered 500", 4),
        (Answer(status=401, raw=b"no such key"), "answered 401: no such key", 1),
        (Answer(status=404, raw=b"no such model"), "answered 404", 1),
        (Answer(status=302, headers={"Location": "http://127.0.0.1:1/"}), "answered 302", 1),
        (Answer(raw=b"<html>"), "not a chat completion: '<html>'", 1),
        (Answer(raw=b'{"choices": []}'), "not a chat completion", 1),
        (Answer(raw=b'{"choices": [{"message": null}]}'), "not a chat completion", 1),
        (Answer(raw=b'{"choices": [{"message": {"tool_calls": [7]}}]}'), "not a chat completion", 1),
        (Answer(raw=b"[" * 200_000), "not a chat completion", 1),
        (Answer(raw=b" " * 5_000_000), "more than 4000000 bytes", 1),
        (Answer(raw=b"gzip?", headers={"Content-Encoding": "gzip"}), "DecodingError", 4),
    ],
)
async def test_a_server_that_cannot_be_used_is_named_with_what_it_said(answer: Answer, says: str, sent: int) -> None:
    judgement, requests = await ask(lambda *_: answer, protocol="native")
    assert says in judgement.no_proposal_reason
    assert len(requests) == sent


async def test_silence_ends_at_the_time_limit() -> None:
    limits = ProposeLimits(timeout_s=0.3)
    judgement, _ = await ask(lambda _, request: replace(good(request), delay_s=1.0), limits=limits)
    assert judgement.no_proposal_reason.startswith("limits: no valid answer within 0.3 s")


async def test_nobody_listening_is_no_proposal() -> None:
    endpoint = Endpoint(url="http://127.0.0.1:9/v1", model="m")
    judgement = await Llm(endpoint).propose(bell(), ProposeLimits(timeout_s=20))
    assert "ConnectError after 4 attempts" in judgement.no_proposal_reason


async def test_a_server_without_tools_and_schemas_is_asked_in_plain_text_and_this_is_remembered() -> None:
    def script(_: int, request: Request) -> Answer:
        plainest = not {"tools", "response_format", "structured_outputs"} & set(request)
        return good(request) if plainest else Answer(status=400, raw=b"not supported")

    with ScriptedServer(script) as server:
        judge = Llm(Endpoint(url=server.url, model="m"))
        for _ in range(2):
            assert (await judge.propose(bell(), ProposeLimits(timeout_s=20))).proposals
        assert len(server.requests) == 5 + 1


async def test_structured_output_is_used_where_it_is_offered() -> None:
    def vllm(_: int, request: Request) -> Answer:
        return good(request) if "structured_outputs" in request else Answer(status=400, raw=b"not supported")

    judgement, requests = await ask(vllm)
    assert judgement.proposals
    assert [sorted({"tools", "response_format", "structured_outputs"} & set(one)) for one in requests] == [
        ["tools"],
        ["response_format"],
        ["structured_outputs"],
    ]
    schema = requests[-1]["structured_outputs"]["json"]
    kinds = [one["properties"]["tool"]["const"] for one in schema["properties"]["call"]["anyOf"]]
    assert kinds == ["search_trajectory", "get_segment", "answer"]


async def test_a_server_that_refuses_every_way_is_named_with_what_it_said() -> None:
    judgement, requests = await ask(lambda *_: Answer(status=400, raw=b"context too long"))
    assert "context too long" in judgement.no_proposal_reason
    assert len(requests) == 5


async def test_a_server_that_wants_max_completion_tokens_gets_it() -> None:
    def script(_: int, request: Request) -> Answer:
        if "max_tokens" in request:
            return Answer(status=400, raw=b"Unsupported parameter: use 'max_completion_tokens' instead")
        return good(request)

    judgement, requests = await ask(script)
    assert judgement.proposals
    assert "tools" in requests[1]


@pytest.mark.parametrize(
    "text",
    [
        "<think>{maybe turn 1}</think>\n```json\n%s\n```",
        "%s",
        'First {"tool": "search_trajectory", "query": "x"} and then %s.',
        '{"call": %s}',
    ],
)
async def test_an_answer_is_found_in_whatever_surrounds_it(text: str) -> None:
    judgement, _ = await ask(lambda *_: say(text % json.dumps({"tool": "answer", **GOOD})), protocol="text")
    assert judgement.proposals[0].segment.first_turn == 2


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_several_proposals_are_ranked_and_disjoint(protocol: str) -> None:
    limits = ProposeLimits(max_proposals=3, timeout_s=20)
    many = [GOOD, {**GOOD, "first_turn": 4, "last_turn": 4}]
    judgement, _ = await ask(
        lambda _, request: act(request, "answer", proposals=many), protocol=protocol, limits=limits
    )
    assert [one.segment.first_turn for one in judgement.proposals] == [2, 4]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_the_valid_ones_of_several_are_kept_after_the_repairs(protocol: str) -> None:
    limits = ProposeLimits(max_proposals=3, timeout_s=20)
    many = [GOOD, {**GOOD, "first_turn": 1, "last_turn": 3}, {**GOOD, "first_turn": 5, "last_turn": 5}]
    judgement, requests = await ask(
        lambda _, request: act(request, "answer", proposals=many), protocol=protocol, limits=limits
    )
    assert [one.segment.first_turn for one in judgement.proposals] == [2]
    assert judgement.cost.invalid_answers == len(requests) == 4
    assert "share a turn with a better segment" in requests[1]["messages"][-1]["content"]


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
