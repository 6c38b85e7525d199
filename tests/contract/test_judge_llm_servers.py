"""The model judge and the ways of servers: those that fail, and those that refuse a way of asking."""

import pytest

from services.judge.llm import Endpoint, Llm
from services.judge.question import ProposeLimits
from tests.contract.judge_asks import ask, good
from tests.contract.judge_server import Answer, Request, ScriptedServer
from tests.unit.judge.builders import bell


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
