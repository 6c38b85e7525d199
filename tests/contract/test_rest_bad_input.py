"""Everything that can be wrong with a submission has a clear answer, and the queue keeps working after each."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from rest_mistakes import MISTAKES, Body, trajectory, turn, with_change

from prover.queues import ANALYZE
from services.gateway.__main__ import check_task
from services.gateway.examples import SUBMISSION_EXAMPLE
from tests.rest_server import RunningGateway, running_gateway

# One gateway serves all these tests: it has to survive every one of them.
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(redis_server: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningGateway]:
    folder = tmp_path_factory.mktemp("blobs")
    async with running_gateway(redis_server, folder, max_body_bytes=200_000) as running:
        await running.redis.flushall()
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def http(gateway: RunningGateway) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=gateway.url, timeout=20.0) as client:
        yield client


@pytest.mark.parametrize("name", MISTAKES)
async def test_a_mistake_is_named_with_its_field_and_what_was_expected(name: str, http: httpx.AsyncClient) -> None:
    change, field, was, expected = MISTAKES[name]
    # NaN and Infinity are not JSON, and yet many writers write them.
    content = json.dumps(with_change(change))
    known = (await http.get("/v1/analyses")).json()
    answer = await http.post("/v1/analyses", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json()
    assert document["type"] == "urn:prover:problem:invalid-analysis"
    assert document["status"] == 422
    first = document["errors"][0]
    assert first["field"] == field
    assert was in first["was"]
    assert expected in first["expected"]
    assert field in document["detail"]
    assert (await http.get("/v1/analyses")).json() == known, "nothing is left of it"


async def test_all_mistakes_are_named_at_once(http: httpx.AsyncClient) -> None:
    def change(body: Body) -> None:
        body["options"].update(mode="psychic", judge="oracle")
        trajectory(body).update(reward=7.0)

    answer = await http.post("/v1/analyses", json=with_change(change))
    fields = [mistake["field"] for mistake in answer.json()["errors"]]
    assert fields == ["options.judge", "options.mode", "group.trajectories[0].reward"]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"not json", b'{"group": }', b"\xff\xfe", b"[" * 100_000, b'{"group": "\\ud800"}', b"{} {}"],
    ids=["empty", "cut off", "words", "a hole", "not UTF-8", "too deep", "half a character", "two documents"],
)
async def test_what_is_not_json_is_said_so(content: bytes, http: httpx.AsyncClient) -> None:
    answer = await http.post("/v1/analyses", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400, answer.text
    assert answer.json()["type"] == "urn:prover:problem:not-json"
    assert answer.json()["errors"][0]["field"] == "body"


@pytest.mark.parametrize("content", [b"[]", b"3", b"null", b'"group"'])
async def test_json_that_is_no_object_is_refused(content: bytes, http: httpx.AsyncClient) -> None:
    answer = await http.post("/v1/analyses", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "body"


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_another_type_is_refused(content_type: str, http: httpx.AsyncClient) -> None:
    answer = await http.post("/v1/analyses", content=b"{}", headers={"Content-Type": content_type})
    assert answer.status_code == 415
    assert answer.json()["errors"][0]["field"] == "Content-Type"


async def test_a_charset_beside_the_type_is_fine(http: httpx.AsyncClient) -> None:
    headers = {"Content-Type": "application/json; charset=utf-8"}
    answer = await http.post("/v1/analyses", content=json.dumps(SUBMISSION_EXAMPLE), headers=headers)
    assert answer.status_code == 202


async def test_a_body_beyond_the_limit_is_refused(http: httpx.AsyncClient) -> None:
    body = with_change(lambda body: turn(body).update(observation="x" * 250_000))
    answer = await http.post("/v1/analyses", json=body)
    assert answer.status_code == 413
    assert "200000 bytes" in answer.json()["errors"][0]["expected"]


async def test_a_body_that_does_not_say_its_length_is_counted(http: httpx.AsyncClient) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(30):
            yield b" " * 10_000

    answer = await http.post("/v1/analyses", content=chunks(), headers={"Content-Type": "application/json"})
    assert answer.status_code == 413


async def test_actions_that_are_null_are_fine(http: httpx.AsyncClient) -> None:
    body = with_change(lambda body: turn(body).update(action=None))
    assert (await http.post("/v1/analyses", json=body)).status_code == 202


@pytest.mark.parametrize("success", [True, False])
async def test_a_group_without_contrast_is_taken_in(success: bool, http: httpx.AsyncClient) -> None:
    def change(body: Body) -> None:
        for index in range(2):
            trajectory(body, index).update(success=success, reward=float(success))

    assert (await http.post("/v1/analyses", json=with_change(change))).status_code == 202


@pytest.mark.parametrize("analysis_id", ["unknown", "..", "%2e%2e", "a%2Fb", "A" * 500, "%00"])
async def test_an_id_that_is_none_is_not_found(analysis_id: str, http: httpx.AsyncClient) -> None:
    for method, path in (("GET", ""), ("GET", "/advantages"), ("GET", "/events"), ("POST", "/cancel"), ("DELETE", "")):
        answer = await http.request(method, f"/v1/analyses/{analysis_id}{path}")
        assert answer.status_code in (404, 405), (method, path, answer.text)
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/v1/analyses?limit=0", "limit"),
        ("/v1/analyses?limit=many", "limit"),
        ("/v1/analyses?before=nan", "before"),
        ("/v1/policy?policy=gpt", "policy"),
        ("/v1/analyses/a?wait=-1", "wait"),
        ("/v1/analyses/a?wait=nan", "wait"),
    ],
)
async def test_a_parameter_that_cannot_be_used_is_named(path: str, field: str, http: httpx.AsyncClient) -> None:
    answer = await http.get(path)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["errors"][0]["field"] == field


async def test_a_bad_last_event_id_is_named(http: httpx.AsyncClient) -> None:
    analysis_id = (await http.post("/v1/analyses", json=SUBMISSION_EXAMPLE)).json()["id"]
    answer = await http.get(f"/v1/analyses/{analysis_id}/events", headers={"Last-Event-ID": "yesterday"})
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == "Last-Event-ID"


@pytest.mark.parametrize("key", ["", "two words", "k" * 201])
async def test_a_bad_idempotency_key_is_named(key: str, http: httpx.AsyncClient) -> None:
    answer = await http.post("/v1/analyses", json=SUBMISSION_EXAMPLE, headers={"Idempotency-Key": key})
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == "Idempotency-Key"


async def test_routes_and_methods_that_do_not_exist_are_problems_too(http: httpx.AsyncClient) -> None:
    for method, path, status in (("GET", "/v2", 404), ("PUT", "/v1/analyses", 405)):
        answer = await http.request(method, path)
        assert (answer.status_code, answer.json()["status"]) == (status, status)
        assert answer.headers["content-type"] == "application/problem+json"


async def test_the_queue_keeps_working_after_every_mistake(gateway: RunningGateway, http: httpx.AsyncClient) -> None:
    await gateway.redis.delete(ANALYZE)
    for change, *_ in MISTAKES.values():
        content = json.dumps(with_change(change))
        await http.post("/v1/analyses", content=content, headers={"Content-Type": "application/json"})
    analysis_id = (await http.post("/v1/analyses", json=SUBMISSION_EXAMPLE)).json()["id"]
    assert await gateway.next_message() == analysis_id


@pytest.mark.parametrize(
    "task_id",
    ["../../../etc/passwd", "valid_seen/../../x", "/etc", "generated/pick_and_place_simple/x", "generated/none/1"],
)
async def test_the_real_environment_refuses_tasks_that_it_does_not_have(
    task_id: str, redis_server: str, tmp_path: Path
) -> None:
    async with (
        running_gateway(redis_server, tmp_path, check_task=check_task) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=20.0) as http,
    ):
        body = with_change(lambda body: body["group"]["task"].update(task_id=task_id))
        answer = await http.post("/v1/analyses", json=body)
        assert answer.status_code == 422, answer.text
        assert answer.json()["errors"][0]["field"] == "group.task.task_id"
        assert (await http.post("/v1/analyses", json=SUBMISSION_EXAMPLE)).status_code == 202
