"""The model judge against a scripted server over real HTTP: what it answers, well or badly."""

import json

import pytest

from prover.credit.eligibility import anchor
from services.judge.protocols import prompt_version
from services.judge.question import ProposeLimits
from tests.contract.judge_asks import GOOD, PROTOCOLS, ask, good
from tests.contract.judge_server import Answer, Request, act, say
from tests.unit.judge.builders import bell


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
    assert (proposal.judge, proposal.prompt_version, proposal.repairs) == ("llm", f"{prompt_version()}@m", 0)
    cost = judgement.cost
    assert (cost.input_tokens, cost.output_tokens, cost.tool_calls, cost.invalid_answers) == (300, 30, 2, 0)
    hits, page = (request["messages"][-1]["content"] for request in requests[1:])
    assert "go chest 1" in hits
    assert '"trajectory": "t0", "turn": 1' in page


async def test_another_model_with_the_same_prompts_is_another_version() -> None:
    found = [(await ask(lambda _, request: good(request), model=name))[0] for name in ("small", "Org/large-7B")]
    assert [judgement.prompt_version for judgement in found] == [
        f"{prompt_version()}@small",
        f"{prompt_version()}@Org/large-7B",
    ]


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
