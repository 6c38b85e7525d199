"""What a gateway says of itself, over real HTTP: readiness, metrics, load, its page, the OpenAPI document."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.rest_server import RunningGateway, play_through, running_gateway, submission, submitted


@pytest.fixture
async def gateway(redis_url: str, tmp_path: Path) -> AsyncIterator[RunningGateway]:
    async with running_gateway(redis_url, tmp_path) as running:
        yield running


@pytest.fixture
async def http(gateway: RunningGateway) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=gateway.url, timeout=20.0) as client:
        yield client


async def test_readiness_names_what_is_missing(gateway: RunningGateway, http: httpx.AsyncClient) -> None:
    answer = await http.get("/readyz")
    assert answer.status_code == 200
    assert answer.json()["dependencies"] == {"redis": "ok", "judge": "ok", "policy embedded": "ok"}
    gateway.engine.away = True
    answer = await http.get("/readyz")
    assert (answer.status_code, answer.json()["ready"]) == (503, False)
    assert "connection refused" in answer.json()["dependencies"]["policy embedded"]
    assert (await http.get("/healthz")).status_code == 200


async def test_metrics_count_by_route_and_not_by_id(http: httpx.AsyncClient) -> None:
    analysis_id = await submitted(http)
    await http.get(f"/v1/analyses/{analysis_id}")
    text = (await http.get("/metrics")).text
    assert 'route="/v1/analyses/{analysis_id}",status="200"} 1.0' in text
    assert "prover_gateway_active_analyses 1.0" in text
    assert 'prover_gateway_waiting_messages{queue="analyze"} 1.0' in text
    assert analysis_id not in text


async def test_too_many_active_analyses_are_asked_to_come_back(redis_url: str, tmp_path: Path) -> None:
    async with (
        running_gateway(redis_url, tmp_path, max_active=1) as gateway,
        httpx.AsyncClient(base_url=gateway.url) as http,
    ):
        analysis_id = await submitted(http)
        answer = await http.post("/v1/analyses", json=submission())
        assert answer.status_code == 429
        assert int(answer.headers["Retry-After"]) > 0
        await play_through(gateway.store, analysis_id)
        await submitted(http)


async def test_the_page_is_served(http: httpx.AsyncClient) -> None:
    answer = await http.get("/")
    assert answer.headers["content-type"].startswith("text/html")


async def test_the_openapi_document_names_every_route_and_resolves(http: httpx.AsyncClient) -> None:
    document = (await http.get("/openapi.json")).json()
    assert {(path, method) for path, methods in document["paths"].items() for method in methods} >= {
        ("/v1/analyses", "post"),
        ("/v1/analyses", "get"),
        ("/v1/analyses/{analysis_id}", "get"),
        ("/v1/analyses/{analysis_id}", "delete"),
        ("/v1/analyses/{analysis_id}/events", "get"),
        ("/v1/analyses/{analysis_id}/advantages", "get"),
        ("/v1/analyses/{analysis_id}/cancel", "post"),
        ("/v1/policy", "get"),
    }

    def references(value: Any) -> list[str]:
        if isinstance(value, dict):
            own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
            return own + [found for inner in value.values() for found in references(inner)]
        return [found for inner in value for found in references(inner)] if isinstance(value, list) else []

    schemas = document["components"]["schemas"]
    assert all(reference.removeprefix("#/components/schemas/") in schemas for reference in references(document))


async def test_the_example_of_the_openapi_document_is_accepted(http: httpx.AsyncClient) -> None:
    document = (await http.get("/openapi.json")).json()
    content = document["paths"]["/v1/analyses"]["post"]["requestBody"]["content"]["application/json"]
    for example in content["examples"].values():
        await submitted(http, example["value"])
