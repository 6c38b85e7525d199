"""Channels and servers: health, reflection, deadlines, retries, message sizes, TLS, graceful stop."""

import asyncio
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from prover.rpc.channels import open_channel
from prover.rpc.clients import JudgeClient, RolloutClient, RpcError
from prover.rpc.servers import Server
from prover.rpc.settings import MAX_MESSAGE_BYTES, Tls
from prover.rpc.v1 import judge_pb2, judge_pb2_grpc
from prover.trajectory import Group, Task, Trajectory, Turn

Context = grpc.aio.ServicerContext[Any, Any]


class Judges(judge_pb2_grpc.JudgeServiceServicer):
    """Answers `ListJudges` after failing `failures` times; `Propose` says how many bytes of text it read."""

    def __init__(self, *, failures: int = 0, delay_s: float = 0.0) -> None:
        self.calls = 0
        self._failures = failures
        self._delay_s = delay_s

    async def ListJudges(self, request: judge_pb2.ListJudgesRequest, context: Context) -> judge_pb2.ListJudgesResponse:
        self.calls += 1
        await asyncio.sleep(self._delay_s)
        if self.calls <= self._failures:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "not yet")
        return judge_pb2.ListJudgesResponse(judges=["contrast"])

    async def Propose(self, request: judge_pb2.ProposeRequest, context: Context) -> judge_pb2.ProposeResponse:
        read = len(request.group.trajectories[0].turns[0].text)
        return judge_pb2.ProposeResponse(judge="contrast", no_proposal_reason=str(read))


def add(judges: Judges, server: grpc.aio.Server) -> str:
    judge_pb2_grpc.add_JudgeServiceServicer_to_server(judges, server)
    return "prover.rpc.v1.JudgeService"


@asynccontextmanager
async def serving(
    judges: Judges, *, port: int = 0, tls: Tls | None = None, client_tls: Tls | None = None
) -> AsyncIterator[grpc.aio.Channel]:
    server = Server([lambda grpc_server: add(judges, grpc_server)], port=port, tls=tls)
    await server.start()
    channel = open_channel(f"localhost:{server.port}", client_tls)
    try:
        yield channel
    finally:
        await channel.close()
        await server.stop(0)


def group_with_text(text: str) -> Group:
    task = Task(environment="corridor", task_id="corridor")
    turn = Turn(observation="", text=text, action=None)
    trajectory = Trajectory(id="t0", task=task, policy_version="v0", turns=(turn,), reward=0.0, success=False)
    return Group(task=task, policy_version="v0", trajectories=(trajectory,))


@pytest.mark.parametrize("service", ["", "prover.rpc.v1.JudgeService"])
async def test_a_server_tells_its_health_as_a_whole_and_by_service(service: str) -> None:
    async with serving(Judges()) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        answer = await stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=5)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def test_a_server_lists_its_services() -> None:
    async with serving(Judges()) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        async for answer in stub.ServerReflectionInfo(iter([request]), timeout=5):
            names = {service.name for service in answer.list_services_response.service}
            assert names >= {"prover.rpc.v1.JudgeService", "grpc.health.v1.Health"}
            break


async def test_a_call_that_takes_too_long_ends_at_its_deadline() -> None:
    async with serving(Judges(delay_s=5)) as channel:
        with pytest.raises(RpcError, match=r"JudgeService\.ListJudges: DEADLINE_EXCEEDED") as late:
            await JudgeClient(channel).judges(timeout_s=0.2)
        assert not late.value.invalid


async def test_a_service_that_is_not_there_is_waited_for_until_the_deadline_and_no_longer() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        channel = open_channel(f"127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(RpcError, match="DEADLINE_EXCEEDED"):
            await RolloutClient(channel).policy(timeout_s=0.3)
        await channel.close()


async def test_unavailable_is_tried_again() -> None:
    judges = Judges(failures=2)
    async with serving(judges) as channel:
        assert await JudgeClient(channel).judges(timeout_s=10) == ("contrast",)
    assert judges.calls == 3


async def test_unavailable_is_not_tried_for_ever() -> None:
    judges = Judges(failures=100)
    async with serving(judges) as channel:
        with pytest.raises(RpcError, match="UNAVAILABLE: not yet"):
            await JudgeClient(channel).judges(timeout_s=20)
    assert judges.calls == 5


async def test_a_message_far_above_grpcs_own_limit_passes() -> None:
    text = "x" * (20 * 1024 * 1024)
    async with serving(Judges()) as channel:
        judgement = await JudgeClient(channel).propose(group_with_text(text), judge="contrast", timeout_s=20)
    assert judgement.no_proposal_reason == str(len(text))


async def test_a_message_above_our_limit_is_refused_with_both_sizes() -> None:
    text = "x" * (MAX_MESSAGE_BYTES + 1)
    async with serving(Judges()) as channel:
        with pytest.raises(RpcError, match=rf"RESOURCE_EXHAUSTED.*{MAX_MESSAGE_BYTES}"):
            await JudgeClient(channel).propose(group_with_text(text), judge="contrast", timeout_s=20)


async def test_running_calls_finish_when_a_server_stops() -> None:
    judges = Judges(delay_s=0.3)
    server = Server([lambda grpc_server: add(judges, grpc_server)])
    await server.start()
    channel = open_channel(f"127.0.0.1:{server.port}")
    answer = asyncio.ensure_future(JudgeClient(channel).judges(timeout_s=5))
    while judges.calls == 0:
        await asyncio.sleep(0.01)
    await server.stop(grace_s=5)
    assert await answer == ("contrast",)
    await channel.close()


def openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority `ca`, and a certificate `peer` that it signed for localhost; and a `stranger` that it did not."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl on PATH: it makes the certificates of these tests")
    folder = tmp_path_factory.mktemp("certificates")
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    for name in ("ca", "stranger"):
        openssl(
            folder, "req", "-x509", *new_key, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}"
        )
    openssl(folder, "req", *new_key, "-keyout", "peer.key", "-out", "peer.csr", "-subj", "/CN=localhost")
    (folder / "san").write_text("subjectAltName=DNS:localhost")
    signing = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "san"]
    openssl(folder, "x509", "-req", "-in", "peer.csr", *signing, "-out", "peer.pem")
    return folder


async def test_tls_on_both_sides_lets_a_known_client_in(certificates: Path) -> None:
    both = Tls(authority=certificates / "ca.pem", certificate=certificates / "peer.pem", key=certificates / "peer.key")
    async with serving(Judges(), tls=both, client_tls=both) as channel:
        assert await JudgeClient(channel).judges(timeout_s=10) == ("contrast",)


@pytest.mark.parametrize("client", ["no certificate", "a stranger's certificate", "another authority"])
async def test_tls_keeps_everybody_else_out(certificates: Path, client: str) -> None:
    server = Tls(
        authority=certificates / "ca.pem", certificate=certificates / "peer.pem", key=certificates / "peer.key"
    )
    stranger, key = certificates / "stranger.pem", certificates / "stranger.key"
    outsiders = {
        "no certificate": Tls(authority=certificates / "ca.pem"),
        "a stranger's certificate": Tls(authority=certificates / "ca.pem", certificate=stranger, key=key),
        "another authority": Tls(authority=stranger, certificate=certificates / "peer.pem", key=server.key),
    }
    judges = Judges()
    async with serving(judges, tls=server, client_tls=outsiders[client]) as channel:
        with pytest.raises(RpcError):
            await JudgeClient(channel).judges(timeout_s=1)
    assert judges.calls == 0


def test_a_tls_server_without_a_key_is_refused_at_once(certificates: Path) -> None:
    async def make() -> None:
        Server([], tls=Tls(certificate=certificates / "peer.pem"))

    with pytest.raises(ValueError, match="tls: a server needs key and certificate"):
        asyncio.run(make())
