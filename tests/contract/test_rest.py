"""The REST contract: what design.md fixes, over real HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from prover.lifecycle import Status
from tests.rest_server import RunningGateway, play_through, running_gateway, submission, submitted


@pytest.fixture
async def gateway(redis_url: str, tmp_path: Path) -> AsyncIterator[RunningGateway]:
    async with running_gateway(redis_url, tmp_path) as running:
        yield running


@pytest.fixture
async def http(gateway: RunningGateway) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=gateway.url, timeout=20.0) as client:
        yield client


async def test_a_group_is_taken_in_and_sent_to_the_queue(gateway: RunningGateway, http: httpx.AsyncClient) -> None:
    answer = await http.post("/v1/analyses", json=submission())
    analysis_id = answer.json()["id"]
    assert (answer.status_code, answer.json()["status"]) == (202, "queued")
    assert answer.headers["Location"] == f"/v1/analyses/{analysis_id}"
    assert await gateway.next_message() == analysis_id
    assert (await http.get(answer.headers["Location"])).json()["id"] == analysis_id


async def test_a_new_analysis_has_every_field(http: httpx.AsyncClient) -> None:
    analysis_id = await submitted(http)
    answer = (await http.get(f"/v1/analyses/{analysis_id}")).json()
    assert answer["status"] == "queued"
    assert answer["policy_version"] == "v0"
    for empty in ("proposal", "verification", "error", "note"):
        assert answer[empty] is None
    assert answer["options"]["lambda"] == 1.0
    assert answer["options"]["samples"] == 8
    assert answer["cost"] == {"judge": None, "continuations": 0, "continuation_tokens": 0}


async def test_who_says_nothing_of_the_mode_asks_about_one_group_and_gets_the_adaptive_one(
    http: httpx.AsyncClient,
) -> None:
    body = submission()
    del body["options"]
    options = (await http.get(f"/v1/analyses/{await submitted(http, body)}")).json()["options"]
    assert (options["mode"], options["samples"], options["lambda"]) == ("adaptive", 8, 1.0)


async def test_the_end_of_an_analysis_carries_proposal_verification_and_cost(
    gateway: RunningGateway, http: httpx.AsyncClient
) -> None:
    analysis_id = await submitted(http)
    await play_through(gateway.store, analysis_id)
    answer = (await http.get(f"/v1/analyses/{analysis_id}")).json()
    assert answer["status"] == "done"
    assert answer["proposal"] == {
        "trajectory_id": "t0",
        "first_turn": 1,
        "last_turn": 1,
        "failure_mode": "looks elsewhere",
        "reason": "takes the mug",
        "judge": "contrast",
        "prompt_version": "1",
        "repairs": 0,
    }
    assert answer["verification"] == {
        "before": {"successes": 1, "samples": 2, "policy_versions": ["v0"]},
        "after": {"successes": 2, "samples": 2, "policy_versions": []},
        "delta": 0.5,
        "interval": [-0.1, 0.9],
        "probability_positive": 0.9,
        "bonus": 0.5,
        "stopped_because": "budget",
        "tokens": {"before": 40, "after": 20},
    }
    assert answer["cost"]["continuation_tokens"] == 60
    assert (answer["cost"]["judge"]["input_tokens"], answer["cost"]["judge"]["model_calls"]) == (0, 2)


async def test_advantages_are_given_per_trajectory_turn_and_token(
    gateway: RunningGateway, http: httpx.AsyncClient
) -> None:
    analysis_id = await submitted(http)
    await play_through(gateway.store, analysis_id)
    answer = (await http.get(f"/v1/analyses/{analysis_id}/advantages")).json()
    first, second = answer["trajectories"]
    assert (first["trajectory_id"], first["group_advantage"]) == ("t0", 0.5)
    assert [turn["turn"] for turn in first["turns"]] == [0, 1, 2]
    assert first["turns"][0] == {"turn": 0, "advantage": 0.5, "token_advantages": [0.5, 0.5, 0.5]}
    assert first["turns"][1] == {"turn": 1, "advantage": 1.0, "token_advantages": [1.0, 1.0]}
    assert second["turns"][0]["token_advantages"] == [-0.5] * 3


async def test_advantages_of_turns_without_token_ids_have_no_token_advantages(
    gateway: RunningGateway, http: httpx.AsyncClient
) -> None:
    body = submission()
    for trajectory in body["group"]["trajectories"]:
        for turn in trajectory["turns"]:
            turn["token_ids"] = turn["logprobs"] = None
    analysis_id = await submitted(http, body)
    await play_through(gateway.store, analysis_id)
    answer = (await http.get(f"/v1/analyses/{analysis_id}/advantages")).json()
    assert answer["trajectories"][0]["turns"][1] == {"turn": 1, "advantage": 1.0, "token_advantages": None}


async def test_advantages_before_the_end_are_refused(http: httpx.AsyncClient) -> None:
    analysis_id = await submitted(http)
    answer = await http.get(f"/v1/analyses/{analysis_id}/advantages")
    assert answer.status_code == 409
    assert answer.headers["content-type"] == "application/problem+json"
    assert "queued" in answer.json()["detail"]


async def test_advantages_of_a_failed_analysis_are_refused_with_its_reason(
    gateway: RunningGateway, http: httpx.AsyncClient
) -> None:
    analysis_id = await submitted(http)
    await gateway.store.move(analysis_id, Status.FAILED, error="the judge is not reachable at judge:50052")
    answer = await http.get(f"/v1/analyses/{analysis_id}/advantages")
    assert answer.status_code == 409
    assert "the judge is not reachable at judge:50052" in answer.json()["detail"]


async def test_waiting_ends_when_the_analysis_does(gateway: RunningGateway, http: httpx.AsyncClient) -> None:
    analysis_id = await submitted(http)
    waiting = asyncio.create_task(http.get(f"/v1/analyses/{analysis_id}", params={"wait": 60}))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    await play_through(gateway.store, analysis_id)
    assert (await asyncio.wait_for(waiting, 10)).json()["status"] == "done"


async def test_waiting_answers_with_the_present_state_when_the_time_is_over(http: httpx.AsyncClient) -> None:
    analysis_id = await submitted(http)
    assert (await http.get(f"/v1/analyses/{analysis_id}", params={"wait": 0.1})).json()["status"] == "queued"


async def test_no_policy_version_means_the_present_one(gateway: RunningGateway, http: httpx.AsyncClient) -> None:
    assert (await http.get("/v1/policy")).json() == {"model": "household", "version": "v3"}
    analysis_id = await submitted(http, submission(policy_version=None))
    assert (await http.get(f"/v1/analyses/{analysis_id}")).json()["policy_version"] == "v3"
    assert (await gateway.store.group(analysis_id)).trajectories[0].policy_version == "v3"


async def test_no_policy_version_while_the_engine_is_away_asks_to_come_back(
    gateway: RunningGateway, http: httpx.AsyncClient
) -> None:
    gateway.engine.away = True
    answer = await http.post("/v1/analyses", json=submission(policy_version=None))
    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) > 0
    assert "connection refused" in answer.json()["detail"]
    assert await submitted(http), "a group that names its version needs no engine at the door"


async def test_a_repeated_key_is_the_same_analysis(gateway: RunningGateway, http: httpx.AsyncClient) -> None:
    key = {"Idempotency-Key": "step-7-group-3"}
    answers = await asyncio.gather(*(http.post("/v1/analyses", json=submission(), headers=key) for _ in range(5)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert await gateway.store.active() == 1


async def test_a_key_with_another_body_is_refused(http: httpx.AsyncClient) -> None:
    key = {"Idempotency-Key": "k"}
    await http.post("/v1/analyses", json=submission(), headers=key)
    answer = await http.post("/v1/analyses", json=submission(policy_version="v1"), headers=key)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "Idempotency-Key"


async def test_a_repeated_key_does_not_start_over_what_has_ended(
    gateway: RunningGateway, http: httpx.AsyncClient
) -> None:
    key = {"Idempotency-Key": "k"}
    first = (await http.post("/v1/analyses", json=submission(), headers=key)).json()
    await play_through(gateway.store, first["id"])
    again = (await http.post("/v1/analyses", json=submission(), headers=key)).json()
    assert again == {"id": first["id"], "status": "done"}


async def test_the_list_is_newest_first_and_pages_to_the_end(http: httpx.AsyncClient) -> None:
    ids = [await submitted(http) for _ in range(5)]
    seen: list[str] = []
    params: dict[str, Any] = {"limit": 2}
    while True:
        page = (await http.get("/v1/analyses", params=params)).json()
        seen += [analysis["id"] for analysis in page["analyses"]]
        if page["next"] is None:
            break
        params["before"] = page["next"]
    assert seen == ids[::-1]


async def test_cancelling_ends_an_analysis_and_may_be_repeated(http: httpx.AsyncClient) -> None:
    analysis_id = await submitted(http)
    for _ in range(2):
        answer = await http.post(f"/v1/analyses/{analysis_id}/cancel")
        assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
    assert (await http.get(f"/v1/analyses/{analysis_id}/advantages")).status_code == 409


async def test_what_is_done_cannot_be_cancelled(gateway: RunningGateway, http: httpx.AsyncClient) -> None:
    analysis_id = await submitted(http)
    await play_through(gateway.store, analysis_id)
    answer = await http.post(f"/v1/analyses/{analysis_id}/cancel")
    assert answer.status_code == 409
    assert "done" in answer.json()["detail"]


async def test_deleting_removes_every_trace(gateway: RunningGateway, http: httpx.AsyncClient, tmp_path: Path) -> None:
    analysis_id = await submitted(http)
    await play_through(gateway.store, analysis_id)
    assert (await http.delete(f"/v1/analyses/{analysis_id}")).status_code == 204
    for path in ("", "/advantages", "/events"):
        assert (await http.get(f"/v1/analyses/{analysis_id}{path}")).status_code == 404
    assert (await http.delete(f"/v1/analyses/{analysis_id}")).status_code == 404
    assert (await http.get("/v1/analyses")).json()["analyses"] == []
    assert not list(tmp_path.rglob("*.json"))


async def read_events(http: httpx.AsyncClient, analysis_id: str, after: str | None = None) -> list[dict[str, Any]]:
    """All events of a stream that ends by itself."""
    events: list[dict[str, Any]] = []
    headers = {} if after is None else {"Last-Event-ID": after}
    async with http.stream("GET", f"/v1/analyses/{analysis_id}/events", headers=headers) as stream:
        if stream.status_code == 204:
            return []
        assert stream.headers["content-type"].startswith("text/event-stream")
        current: dict[str, Any] = {}
        async for line in stream.aiter_lines():
            name, _, value = line.partition(": ")
            if line == "" and "id" in current:
                events.append(current)
                current = {}
            elif name in ("id", "event"):
                current[name] = value
            elif name == "data":
                current["data"] = json.loads(value)
    return events


async def test_the_stream_tells_every_transition_and_outcome_and_ends(
    gateway: RunningGateway, http: httpx.AsyncClient
) -> None:
    analysis_id = await submitted(http)
    reading = asyncio.create_task(read_events(http, analysis_id))
    await asyncio.sleep(0.1)
    await play_through(gateway.store, analysis_id)
    events = await asyncio.wait_for(reading, 10)
    statuses = [event["data"]["status"] for event in events if event["event"] == "status"]
    assert statuses == ["queued", "proposing", "verifying", "done"]
    assert sum(event["event"] == "outcome" for event in events) == 4
    assert events[-1]["data"]["verifications"][0]["delta"] == 0.5


async def test_the_stream_resumes_after_the_last_event_seen(gateway: RunningGateway, http: httpx.AsyncClient) -> None:
    analysis_id = await submitted(http)
    await play_through(gateway.store, analysis_id)
    events = await read_events(http, analysis_id)
    assert await read_events(http, analysis_id, after=events[2]["id"]) == events[3:]
    assert await read_events(http, analysis_id, after=events[-1]["id"]) == [], "204 tells a browser to stop"
