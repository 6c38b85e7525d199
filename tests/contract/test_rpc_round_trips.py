"""What is written to the wire is read as it was: every noun, with every optional part present and absent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prover.policies.policy import PolicyInfo, Sampling
from prover.rpc import convert
from prover.rpc.v1 import credit_pb2, judge_pb2, rollout_pb2, trajectory_pb2
from prover.trajectory import (
    CreditedTrajectory,
    Ending,
    FailedAttempt,
    Group,
    JudgeCost,
    Judgement,
    Proposal,
    Segment,
    Task,
    Trajectory,
    TrajectoryCredit,
    Turn,
    TurnCredit,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
names = texts.filter(bool)
numbers = st.floats(allow_nan=False)
counts = st.integers(0, 2**31 - 1)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.just(0.25) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)
tasks = st.builds(
    Task,
    environment=names,
    task_id=names,
    seed=st.integers(-(2**63), 2**63 - 1),
    options=st.dictionaries(names, json_values, max_size=3),
)


@st.composite
def turns(draw: st.DrawFn) -> Turn:
    token_ids = draw(st.none() | st.lists(st.integers(0, 2**31), max_size=4).map(tuple))
    with_logprobs = token_ids is not None and draw(st.booleans())
    return Turn(
        observation=draw(texts),
        text=draw(texts),
        action=draw(st.none() | texts),
        valid=draw(st.booleans()),
        reward=draw(numbers),
        context_token_ids=draw(st.none() | st.lists(st.integers(0, 2**31), max_size=4).map(tuple)),
        token_ids=token_ids,
        logprobs=tuple(draw(numbers) for _ in token_ids or ()) if with_logprobs else None,
        digest=draw(st.none() | texts),
    )


@st.composite
def trajectories(draw: st.DrawFn, task: Task | None = None, version: str | None = None) -> Trajectory:
    ending = draw(st.sampled_from(Ending))
    limited = ending in (Ending.STEP_LIMIT, Ending.CONTEXT_LIMIT)
    return Trajectory(
        id=draw(names),
        task=draw(tasks) if task is None else task,
        policy_version=draw(texts) if version is None else version,
        turns=tuple(draw(st.lists(turns(), min_size=1, max_size=3))),
        reward=draw(numbers),
        success=False if limited else draw(st.booleans()),
        ending=ending,
    )


@st.composite
def groups(draw: st.DrawFn) -> Group:
    task, version = draw(tasks), draw(texts)
    members = st.lists(trajectories(task=task, version=version), min_size=1, max_size=3, unique_by=lambda t: t.id)
    return Group(task=task, policy_version=version, trajectories=tuple(draw(members)))


@st.composite
def credited(draw: st.DrawFn) -> CreditedTrajectory:
    trajectory = draw(trajectories())
    turn_credits = tuple(
        TurnCredit(advantage=draw(numbers), token_advantages=draw(st.none() | st.lists(numbers, max_size=3).map(tuple)))
        for _ in trajectory.turns
    )
    credit = TrajectoryCredit(trajectory_id=trajectory.id, group_advantage=draw(numbers), turns=turn_credits)
    return CreditedTrajectory(trajectory=trajectory, credit=credit)


segments = st.tuples(counts, counts).map(
    lambda ends: Segment(trajectory_id="t0", first_turn=min(ends), last_turn=max(ends))
)
proposals = st.builds(
    Proposal,
    segment=segments,
    failure_mode=texts,
    reason=texts,
    judge=texts,
    prompt_version=texts,
    repairs=counts,
)
costs = st.builds(
    JudgeCost,
    input_tokens=counts,
    output_tokens=counts,
    tool_calls=counts,
    invalid_answers=counts,
    seconds=numbers,
    usd=numbers,
    model_calls=counts,
)


@st.composite
def judgements(draw: st.DrawFn) -> Judgement:
    found = tuple(draw(st.lists(proposals, max_size=3)))
    return Judgement(
        judge=draw(texts),
        prompt_version=draw(texts),
        proposals=found,
        no_proposal_reason="" if found else draw(names),
        cost=draw(costs),
    )


@given(tasks)
def test_tasks_survive(task: Task) -> None:
    sent = convert.task_to_wire(task).SerializeToString()
    assert convert.task_from_wire(trajectory_pb2.Task.FromString(sent)) == task


@given(turns())
def test_turns_survive_and_absent_is_not_empty(turn: Turn) -> None:
    sent = convert.turn_to_wire(turn).SerializeToString()
    assert convert.turn_from_wire(trajectory_pb2.Turn.FromString(sent)) == turn


@given(groups())
def test_groups_survive(group: Group) -> None:
    sent = convert.group_to_wire(group).SerializeToString()
    assert convert.group_from_wire(trajectory_pb2.Group.FromString(sent)) == group


@given(credited())
def test_credited_trajectories_survive(trajectory: CreditedTrajectory) -> None:
    sent = convert.credited_to_wire(trajectory).SerializeToString()
    assert convert.credited_from_wire(credit_pb2.CreditedTrajectory.FromString(sent)) == trajectory


@given(judgements())
def test_judgements_survive(judgement: Judgement) -> None:
    sent = convert.judgement_to_wire(judgement).SerializeToString()
    assert convert.judgement_from_wire(judge_pb2.ProposeResponse.FromString(sent)) == judgement


@given(trajectories() | st.builds(FailedAttempt, trajectory_id=texts, reason=texts))
def test_attempts_survive(attempt: Trajectory | FailedAttempt) -> None:
    sent = convert.attempt_to_wire(attempt).SerializeToString()
    assert convert.attempt_from_wire(rollout_pb2.SampleGroupResponse.FromString(sent)) == attempt


@given(st.builds(PolicyInfo, model=texts, version=texts, max_context=counts))
def test_policies_survive(policy: PolicyInfo) -> None:
    sent = convert.policy_to_wire(policy).SerializeToString()
    assert convert.policy_from_wire(rollout_pb2.PolicyInfo.FromString(sent)) == policy


@given(st.floats(0, 10), st.floats(0.01, 1), st.integers(1, 2**31 - 1))
def test_sampling_settings_survive(temperature: float, top_p: float, max_tokens: int) -> None:
    sampling = Sampling(temperature=temperature, top_p=top_p, max_tokens=max_tokens)
    sent = convert.sampling_to_wire(sampling).SerializeToString()
    assert convert.sampling_from_wire(rollout_pb2.SamplingSettings.FromString(sent)) == sampling


def one_trajectory() -> trajectory_pb2.Trajectory:
    task = Task(environment="corridor", task_id="corridor")
    turn = Turn(observation="a door", text="go", action="go")
    return convert.trajectory_to_wire(
        Trajectory(id="t0", task=task, policy_version="v0", turns=(turn,), reward=1.0, success=True)
    )


@pytest.mark.parametrize("ending", [0, 99])
def test_an_ending_of_a_newer_peer_is_refused_by_name(ending: int) -> None:
    message = one_trajectory()
    message.ending = ending  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(ValueError, match=rf"trajectory\.ending: was {ending}; expected one of"):
        convert.trajectory_from_wire(message)


def test_a_kind_of_result_of_a_newer_peer_is_refused() -> None:
    with pytest.raises(ValueError, match="result: was of a kind that this release does not know"):
        convert.attempt_from_wire(rollout_pb2.SampleGroupResponse())


def test_what_a_noun_forbids_is_refused_when_it_is_read() -> None:
    message = one_trajectory()
    message.turns[0].logprobs.values.append(-1.0)
    with pytest.raises(ValueError, match="logprobs: 1 values for no token_ids"):
        convert.trajectory_from_wire(message)


def test_credit_for_another_number_of_turns_is_refused() -> None:
    message = credit_pb2.CreditedTrajectory(trajectory=one_trajectory())
    with pytest.raises(ValueError, match=r"credit\.turns: 0 for 1 turns"):
        convert.credited_from_wire(message)


def test_sampling_settings_that_were_never_given_are_refused() -> None:
    with pytest.raises(ValueError, match=r"sampling: temperature 0\.0, top_p 0\.0, max_tokens 0; expected"):
        convert.sampling_from_wire(rollout_pb2.SamplingSettings())
