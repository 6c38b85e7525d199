"""`RolloutService` over a real gRPC connection: what clients see."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import grpc
import pytest
from corridor import Talker, make_corridor

from prover.policies.policy import PolicyError, Sampling
from prover.policies.publish import Probe, Published, PublishFailed
from prover.rpc.channels import open_channel
from prover.rpc.clients import RolloutClient, RpcError
from prover.rpc.servers import Server
from prover.trajectory import FailedAttempt, Task, Trajectory
from services.rollout.grpc_server import rollout_service
from services.rollout.rollout import Rollout

TASK = Task(environment="corridor", task_id="corridor")
SAMPLING = Sampling(max_tokens=4, seed=7)

Connect = Callable[[Talker], Awaitable[RolloutClient]]


class Silent:
    """Counts nothing."""

    def finished(self, trajectory: Trajectory, seconds: float) -> None: ...

    def failed(self, attempt: FailedAttempt) -> None: ...


class NewVersion:
    """Publishes by naming; refuses the folder "broken"."""

    def __init__(self, policy: Talker) -> None:
        self._policy = policy

    async def publish(
        self, weights_path: str, *, probe: Probe | None = None, previous_path: str | None = None
    ) -> Published:
        if weights_path == "broken":
            raise PublishFailed("broken: no weights in it")
        self._policy.version = weights_path
        return Published(version=weights_path, weights_path=weights_path, probe_difference=0.0)


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    opened: list[tuple[Server, grpc.aio.Channel]] = []

    async def open_client(policy: Talker) -> RolloutClient:
        rollout = Rollout(
            policy,
            publisher=NewVersion(policy),
            make_environment=make_corridor,
            max_concurrent=4,
            observer=Silent(),
        )
        server = Server([rollout_service(rollout)])
        await server.start()
        channel = open_channel(f"127.0.0.1:{server.port}")
        opened.append((server, channel))
        return RolloutClient(channel)

    yield open_client
    for server, channel in opened:
        await channel.close()
        await server.stop(0)


async def sample(client: RolloutClient, **changes: object) -> list[Trajectory | FailedAttempt]:
    order: dict[str, object] = {"size": 8, "max_turns": 6, "agent": "plain", "sampling": SAMPLING, "timeout_s": 10.0}
    attempts = client.attempt_group(TASK, **(order | changes))  # pyright: ignore[reportArgumentType]
    return [attempt async for attempt in attempts]


async def test_a_group_comes_over_the_wire_as_it_was_sampled(connect: Connect) -> None:
    policy = Talker()
    attempts = await sample(await connect(policy))
    assert sorted(attempt.id for attempt in attempts if isinstance(attempt, Trajectory)) == [f"t{i}" for i in range(8)]
    turn = next(attempt for attempt in attempts if isinstance(attempt, Trajectory)).turns[0]
    assert bytes(turn.context_token_ids or ()).decode() == "3 doors\n>"
    assert turn.logprobs is not None
    assert len(turn.logprobs) == len(turn.token_ids or ())


async def test_trajectories_are_sent_as_they_finish(connect: Connect) -> None:
    policy = Talker(skill=1.0)
    policy.delay_s = 0.3  # long beside what a message takes, so that the first one comes while others are played
    client = await connect(policy)
    attempts = client.attempt_group(TASK, size=12, max_turns=6, agent="plain", sampling=SAMPLING, timeout_s=10.0)
    await anext(attempts)
    assert policy.turns < 12 * 3
    await attempts.aclose()


async def test_a_client_that_hangs_up_stops_the_sampling(connect: Connect) -> None:
    policy = Talker(skill=0.0)
    policy.delay_s = 0.05
    client = await connect(policy)
    attempts = client.attempt_group(TASK, size=4, max_turns=500, agent="plain", sampling=SAMPLING, timeout_s=60.0)
    waiting = asyncio.ensure_future(anext(attempts))
    while policy.in_flight == 0:
        await asyncio.sleep(0.01)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    while policy.cancelled < 4:
        await asyncio.sleep(0.01)
    turns = policy.turns
    await asyncio.sleep(0.15)
    assert policy.turns == turns


async def test_a_deadline_ends_the_call_and_the_sampling(connect: Connect) -> None:
    policy = Talker(skill=0.0)
    policy.delay_s = 0.05
    client = await connect(policy)
    with pytest.raises(RpcError, match=r"RolloutService\.SampleGroup: DEADLINE_EXCEEDED"):
        await sample(client, max_turns=500, timeout_s=0.2)
    while policy.cancelled < 4:
        await asyncio.sleep(0.01)


async def test_one_failed_attempt_is_sent_with_its_reason(connect: Connect) -> None:
    def fail_once(turn: int) -> None:
        if turn == 3:
            raise PolicyError("the engine hung up")

    attempts = await sample(await connect(Talker(before_turn=fail_once)))
    reasons = [attempt.reason for attempt in attempts if isinstance(attempt, FailedAttempt)]
    assert reasons == ["PolicyError: the engine hung up"]


async def test_a_client_that_wants_trajectories_only_gets_no_failed_attempts(connect: Connect) -> None:
    def fail_once(turn: int) -> None:
        if turn == 3:
            raise PolicyError("the engine hung up")

    client = await connect(Talker(before_turn=fail_once))
    group = client.sample_group(TASK, size=8, max_turns=6, agent="plain", sampling=SAMPLING, timeout_s=10.0)
    assert len([trajectory async for trajectory in group]) == 7


async def test_a_group_of_failures_ends_with_aborted(connect: Connect) -> None:
    def fail(turn: int) -> None:
        raise PolicyError("the engine hung up")

    with pytest.raises(RpcError, match="ABORTED: all 8 attempts failed") as failed:
        await sample(await connect(Talker(before_turn=fail)))
    assert not failed.value.invalid


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 0}, "group_size: was 0"),
        ({"agent": "mime"}, "agent: was 'mime'"),
        ({"sampling": Sampling(max_tokens=0)}, "max_tokens 0; expected"),
        ({"sampling": Sampling(top_p=0.0)}, "top_p 0.0"),
    ],
)
async def test_the_callers_mistakes_are_told_as_such(
    connect: Connect, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(RpcError, match=f"INVALID_ARGUMENT: .*{message}") as refused:
        await sample(await connect(Talker()), **changes)
    assert refused.value.invalid


async def test_a_single_trajectory_is_a_group_of_one(connect: Connect) -> None:
    client = await connect(Talker(skill=1.0))
    trajectory = await client.sample_trajectory(TASK, max_turns=6, agent="plain", sampling=SAMPLING, timeout_s=10.0)
    assert (trajectory.success, len(trajectory.turns)) == (True, 3)


async def test_a_new_policy_is_reported_once_it_serves(connect: Connect) -> None:
    client = await connect(Talker())
    assert (await client.policy(timeout_s=5)).version == "v0"
    assert (await client.set_policy("v1", timeout_s=5)).version == "v1"


async def test_weights_that_do_not_serve_are_a_failure_and_the_old_policy_stays(connect: Connect) -> None:
    client = await connect(Talker())
    with pytest.raises(RpcError, match="FAILED_PRECONDITION: broken: no weights in it"):
        await client.set_policy("broken", timeout_s=5)
    assert (await client.policy(timeout_s=5)).version == "v0"
