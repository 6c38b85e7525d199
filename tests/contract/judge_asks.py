"""Asks the model judge about a small group, with a scripted server behind it."""

from dataclasses import replace

from prover.credit.eligibility import anchor
from prover.credit.segments import segment_fault
from prover.trajectory import Group, Judgement
from services.judge.llm import Endpoint, Llm
from services.judge.question import ProposeLimits
from tests.contract.judge_server import Answer, Request, Script, ScriptedServer, act
from tests.unit.judge.builders import bell

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
