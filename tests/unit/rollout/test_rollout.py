"""What the rollout service promises of a group, with a world and a policy known by heart."""

import asyncio
import itertools
from contextlib import aclosing
from dataclasses import replace

import pytest
from corridor import Talker, make_corridor

from prover.policies.policy import PolicyError, Sampling
from prover.policies.publish import Probe, Published
from prover.trajectory import Ending, FailedAttempt, Group, Task, Trajectory
from services.rollout.rollout import GroupFailed, GroupOrder, InvalidRequest, Rollout, derive_seed

TASK = Task(environment="corridor", task_id="corridor")
ORDER = GroupOrder(task=TASK, size=8, max_turns=6, agent="plain", sampling=Sampling(max_tokens=4, seed=7))


class Recorder:
    """Counts what it is told."""

    def __init__(self) -> None:
        self.trajectories = 0
        self.failures = 0

    def finished(self, trajectory: Trajectory, seconds: float) -> None:
        self.trajectories += 1

    def failed(self, attempt: FailedAttempt) -> None:
        self.failures += 1


class NewVersion:
    """A publisher that only has the talker change its version."""

    def __init__(self, policy: Talker) -> None:
        self._policy = policy

    async def publish(
        self, weights_path: str, *, probe: Probe | None = None, previous_path: str | None = None
    ) -> Published:
        self._policy.version = weights_path
        return Published(version=weights_path, weights_path=weights_path, probe_difference=0.0)


def make_rollout(policy: Talker, *, max_concurrent: int = 64, recorder: Recorder | None = None) -> Rollout:
    return Rollout(
        policy,
        publisher=NewVersion(policy),
        make_environment=make_corridor,
        max_concurrent=max_concurrent,
        observer=recorder or Recorder(),
    )


async def sample(rollout: Rollout, order: GroupOrder = ORDER) -> list[Trajectory | FailedAttempt]:
    return [attempt async for attempt in rollout.sample_group(order)]


def trajectories(attempts: list[Trajectory | FailedAttempt]) -> tuple[Trajectory, ...]:
    found = [attempt for attempt in attempts if isinstance(attempt, Trajectory)]
    return tuple(sorted(found, key=lambda trajectory: trajectory.id))


async def test_the_trajectories_of_a_call_make_a_group() -> None:
    sampled = trajectories(await sample(make_rollout(Talker())))
    group = Group(task=TASK, policy_version="v0", trajectories=sampled)
    assert len(group.trajectories) == 8
    assert {trajectory.ending for trajectory in sampled} == {Ending.FINISHED, Ending.STEP_LIMIT}


async def test_contexts_grow_by_what_was_sampled_and_answered() -> None:
    for trajectory in trajectories(await sample(make_rollout(Talker()))):
        for turn, following in zip(trajectory.turns, trajectory.turns[1:], strict=False):
            read_and_written = (*(turn.context_token_ids or ()), *(turn.token_ids or ()))
            assert (following.context_token_ids or ())[: len(read_and_written)] == read_and_written


async def test_the_same_seed_gives_the_same_group() -> None:
    first, second = [trajectories(await sample(make_rollout(Talker()))) for _ in range(2)]
    assert first == second


async def test_trajectories_of_one_seed_differ_from_each_other() -> None:
    texts = {tuple(turn.text for turn in t.turns) for t in trajectories(await sample(make_rollout(Talker())))}
    assert len(texts) > 1


def test_seeds_of_siblings_are_far_apart() -> None:
    seeds = sorted(derive_seed(0, index, attempt) for index in range(256) for attempt in range(3))
    assert min(after - before for before, after in itertools.pairwise(seeds)) > 1000


async def test_no_more_episodes_than_allowed_run_at_once_over_all_calls() -> None:
    policy = Talker()
    rollout = make_rollout(policy, max_concurrent=3)
    await asyncio.gather(*(sample(rollout) for _ in range(4)))
    assert policy.most_in_flight == 3


async def test_a_failed_attempt_is_a_value_and_its_siblings_go_on() -> None:
    def fail_once(turn: int) -> None:
        if turn == 3:
            raise PolicyError("the engine hung up")

    recorder = Recorder()
    attempts = await sample(make_rollout(Talker(before_turn=fail_once), recorder=recorder))
    failures = [attempt for attempt in attempts if isinstance(attempt, FailedAttempt)]
    assert [failure.reason for failure in failures] == ["PolicyError: the engine hung up"]
    assert len(trajectories(attempts)) == 7
    assert (recorder.trajectories, recorder.failures) == (7, 1)


async def test_a_group_in_which_every_attempt_fails_says_so_after_the_last_one() -> None:
    def fail(turn: int) -> None:
        raise PolicyError("the engine hung up")

    seen: list[Trajectory | FailedAttempt] = []
    with pytest.raises(GroupFailed, match=r"all 8 attempts failed; t\d: PolicyError: the engine hung up"):
        async for attempt in make_rollout(Talker(before_turn=fail)).sample_group(ORDER):
            seen.append(attempt)
    assert len(seen) == 8


async def test_a_policy_changed_before_anything_finished_gives_a_whole_group_of_the_new_version() -> None:
    def change(turn: int) -> None:
        policy.version = "v0" if turn <= 8 else "v1"

    policy = Talker(before_turn=change)
    sampled = trajectories(await sample(make_rollout(policy)))
    assert [trajectory.policy_version for trajectory in sampled] == ["v1"] * 8


async def test_a_group_is_never_of_two_versions() -> None:
    def change(turn: int) -> None:
        policy.version = "v0" if turn <= 20 else "v1"

    policy = Talker(before_turn=change)
    attempts = await sample(make_rollout(policy, max_concurrent=2))
    assert {trajectory.policy_version for trajectory in trajectories(attempts)} == {"v0"}
    failures = [attempt for attempt in attempts if isinstance(attempt, FailedAttempt)]
    assert failures
    assert all("sample the group again" in failure.reason for failure in failures)


async def test_closing_the_stream_stops_the_sampling() -> None:
    policy = Talker(skill=0.0)
    policy.delay_s = 0.01
    rollout = make_rollout(policy, max_concurrent=4)
    async with aclosing(rollout.sample_group(replace(ORDER, max_turns=50))) as attempts:
        first = asyncio.ensure_future(anext(attempts))
        await asyncio.sleep(0.05)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
    turns = policy.turns
    await asyncio.sleep(0.05)
    assert policy.turns == turns
    assert policy.cancelled == 4


async def test_a_context_that_outgrows_the_policy_ends_the_trajectory_unsuccessfully() -> None:
    attempts = trajectories(await sample(make_rollout(Talker(skill=0.0, max_context=40))))
    assert {(attempt.ending, attempt.success) for attempt in attempts} == {(Ending.CONTEXT_LIMIT, False)}


async def test_a_first_context_that_does_not_fit_is_a_failed_attempt() -> None:
    with pytest.raises(GroupFailed, match="leaves no room for a turn"):
        await sample(make_rollout(Talker(max_context=10)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": 0}, "group_size: was 0; expected 1 to 256"),
        ({"size": 257}, "group_size: was 257"),
        ({"max_turns": 0}, "max_turns: was 0; expected 1 to 1000"),
        ({"sampling": Sampling(temperature=float("inf"))}, "sampling.temperature: was inf"),
        ({"sampling": Sampling(seed=-1)}, "seed: was -1; expected 0 or more"),
        ({"agent": "mime"}, "agent: was 'mime'; expected one of chatml, plain"),
        ({"task": Task(environment="moon", task_id="x")}, "task.environment: was 'moon'; expected one of corridor"),
        ({"task": Task(environment="corridor", task_id="x")}, "task.task_id: was 'x'; expected 'corridor'"),
    ],
)
async def test_what_cannot_be_sampled_is_refused_by_name(change: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        await sample(make_rollout(Talker()), replace(ORDER, **change))


async def test_an_agent_whose_stop_text_is_no_token_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="Choose an agent that fits the policy"):
        await sample(make_rollout(Talker()), replace(ORDER, agent="chatml"))


async def test_a_new_policy_is_the_one_that_is_sampled_next() -> None:
    rollout = make_rollout(Talker())
    assert (await rollout.policy()).version == "v0"
    assert (await rollout.set_policy("v5")).version == "v5"
    assert {trajectory.policy_version for trajectory in trajectories(await sample(rollout))} == {"v5"}
