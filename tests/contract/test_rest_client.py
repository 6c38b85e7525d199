"""The Python client against a real gateway."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from uvicorn import Config, Server

from prover.analysis import Options
from prover.client import AsyncProverClient, GatewayUnreachable, ProblemError, ProverClient
from prover.lifecycle import Status
from prover.trajectory import Ending, Group, Task, Trajectory, Turn
from tests.rest_server import RunningGateway, play_through, running_gateway

TASK = Task(environment="alfworld", task_id="generated/pick_and_place_simple/1", options={"release": "2021"})


def trajectory(name: str, reward: float) -> Trajectory:
    turns = (
        Turn(observation="A room.", text="think\n", action=None, token_ids=(1, 2), logprobs=(-0.5, -0.25)),
        Turn(observation="A room.", text="go to desk 1\n", action="go to desk 1", digest="d1"),
        Turn(observation="A desk.", text="take mug 1\n", action="take mug 1", reward=reward),
    )
    return Trajectory(
        id=name, task=TASK, policy_version="v0", turns=turns, reward=reward, success=reward > 0, ending=Ending.FINISHED
    )


GROUP = Group(task=TASK, policy_version="v0", trajectories=(trajectory("t0", 1.0), trajectory("t1", 0.0)))


@pytest.fixture
async def gateway(redis_url: str, tmp_path: Path) -> AsyncIterator[RunningGateway]:
    async with running_gateway(redis_url, tmp_path) as running:
        yield running


@pytest.fixture
async def client(gateway: RunningGateway) -> AsyncIterator[AsyncProverClient]:
    async with AsyncProverClient(gateway.url) as opened:
        yield opened


async def test_a_group_arrives_as_it_was(gateway: RunningGateway, client: AsyncProverClient) -> None:
    options = Options(samples=4, weight=2.0, temperature=0.7, reward_range=(0.0, 2.0))
    analysis_id = await client.submit(GROUP, options)
    assert await gateway.store.group(analysis_id) == GROUP
    stored = await gateway.store.get(analysis_id)
    assert stored is not None
    assert stored.options == options


async def test_options_that_are_left_out_are_those_of_the_mode(
    gateway: RunningGateway, client: AsyncProverClient
) -> None:
    frugal = await client.get(await client.submit(GROUP, {"mode": "frugal"}))
    assert (frugal["options"]["samples"], frugal["options"]["lambda"]) == (1, 3.0)
    own = await client.get(await client.submit(GROUP, {"mode": "audited", "samples": 2}))
    assert (own["options"]["samples"], own["options"]["lambda"]) == (2, 10.0)


async def test_events_come_as_they_happen_and_end(gateway: RunningGateway, client: AsyncProverClient) -> None:
    analysis_id = await client.submit(GROUP)
    playing: asyncio.Task[None] | None = None
    seen: list[object] = []
    async for event in client.events(analysis_id):
        seen.append(event.data.get("status", event.event))
        playing = playing or asyncio.create_task(play_through(gateway.store, analysis_id))
    assert seen == ["queued", "proposing", "verifying", *["outcome"] * 4, "done"]
    assert (await client.wait(analysis_id))["status"] == "done"
    first = (await client.advantages(analysis_id))["trajectories"][0]
    assert first["turns"][0]["token_advantages"] == [0.5, 0.5]
    assert first["turns"][1] == {"turn": 1, "advantage": 1.0, "token_advantages": None}


async def test_waiting_too_long_says_where_it_stands(client: AsyncProverClient) -> None:
    with pytest.raises(TimeoutError, match="still queued"):
        await client.wait(await client.submit(GROUP), timeout_s=0.1)


async def test_the_rest_of_the_life_of_an_analysis(client: AsyncProverClient) -> None:
    first, second = await client.submit(GROUP), await client.submit(GROUP)
    page = await client.list(limit=1)
    assert [summary["id"] for summary in page["analyses"]] == [second]
    assert [summary["id"] for summary in (await client.list(before=page["next"]))["analyses"]] == [first]
    await client.cancel(first)
    assert (await client.get(first))["status"] == "cancelled"
    await client.delete(first)
    with pytest.raises(ProblemError) as caught:
        await client.get(first)
    assert (caught.value.status, caught.value.kind) == (404, "not-found")
    assert await client.policy() == {"model": "household", "version": "v3"}


async def test_a_refusal_names_the_field(client: AsyncProverClient) -> None:
    with pytest.raises(ProblemError, match="options\\.mode") as caught:
        await client.submit(GROUP, {"mode": "psychic"})
    assert caught.value.mistakes[0] == {
        "field": "options.mode",
        "was": "'psychic'",
        "expected": caught.value.mistakes[0]["expected"],
    }
    assert "fixed" in caught.value.mistakes[0]["expected"]


async def test_the_same_key_is_the_same_analysis(client: AsyncProverClient) -> None:
    ids = {await client.submit(GROUP, key="step-1") for _ in range(3)}
    assert len(ids) == 1
    assert await client.submit(GROUP) not in ids


async def test_the_waiting_client_does_the_same(gateway: RunningGateway) -> None:
    def use() -> tuple[str, list[str]]:
        with ProverClient(gateway.url) as client:
            analysis_id = client.submit(GROUP)
            client.cancel(analysis_id)
            assert client.wait(analysis_id, timeout_s=5)["status"] == "cancelled"
            statuses = [str(event.data["status"]) for event in client.events(analysis_id)]
            assert [summary["id"] for summary in client.list()["analyses"]] == [analysis_id]
            assert client.policy()["version"] == "v3"
            with pytest.raises(ProblemError, match="cancelled"):
                client.advantages(analysis_id)
            client.delete(analysis_id)
            return analysis_id, statuses

    analysis_id, statuses = await asyncio.to_thread(use)
    assert statuses == ["queued", "cancelled"]
    assert await gateway.store.get(analysis_id) is None


async def test_nobody_at_the_address_is_said_so(unused_tcp_port: int) -> None:
    async with AsyncProverClient(f"http://127.0.0.1:{unused_tcp_port}", retries=2) as client:
        with pytest.raises(GatewayUnreachable, match=str(unused_tcp_port)):
            await client.list()


async def test_a_gateway_that_asks_to_come_back_is_asked_again(unused_tcp_port: int) -> None:
    asked = 0

    async def busy_twice(scope: object, receive: object, send: object) -> None:
        nonlocal asked
        asked += 1
        status = 429 if asked <= 2 else 200
        body = b'{"analyses": [], "next": null}'
        headers = [(b"content-type", b"application/json"), (b"retry-after", b"0")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    server = Server(Config(busy_twice, port=unused_tcp_port, log_level="warning", lifespan="off"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    async with AsyncProverClient(f"http://127.0.0.1:{unused_tcp_port}") as client:
        assert (await client.list())["analyses"] == []
    assert asked == 3
    server.should_exit = True
    await serving


async def test_prover_url_tells_where_the_gateway_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVER_URL", "http://gateway:9000/")
    assert ProverClient().url == "http://gateway:9000"
    assert ProverClient("http://other:1").url == "http://other:1"
    monkeypatch.delenv("PROVER_URL")
    assert ProverClient().url == "http://127.0.0.1:8000"


async def test_a_stream_of_an_analysis_that_has_failed_ends(gateway: RunningGateway, client: AsyncProverClient) -> None:
    analysis_id = await client.submit(GROUP)
    await gateway.store.move(analysis_id, Status.FAILED, error="no judge")
    assert [event.data["status"] async for event in client.events(analysis_id)] == ["queued", "failed"]


async def test_numbers_that_json_cannot_say_never_leave(client: AsyncProverClient) -> None:
    with pytest.raises(ValueError, match="JSON"):
        await client.submit_json({"group": {}, "options": {"lambda": float("nan")}})
