"""Between the nouns and the wire. Nothing else in the project touches a protobuf message's fields.

Reading raises ValueError for what the nouns forbid, and for enum values of a newer peer.
"""

from collections.abc import Sequence
from dataclasses import asdict, fields

from google.protobuf import json_format, struct_pb2

from prover.policies.policy import PolicyInfo, Sampling
from prover.rpc.v1 import credit_pb2, judge_pb2, learner_pb2, rollout_pb2, trajectory_pb2
from prover.training import StepMetrics
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

_ENDINGS = {
    Ending.FINISHED: trajectory_pb2.ENDING_FINISHED,
    Ending.STEP_LIMIT: trajectory_pb2.ENDING_STEP_LIMIT,
    Ending.CONTEXT_LIMIT: trajectory_pb2.ENDING_CONTEXT_LIMIT,
    Ending.UNKNOWN: trajectory_pb2.ENDING_UNKNOWN,
}
_ENDINGS_READ = {number: ending for ending, number in _ENDINGS.items()}


def task_to_wire(task: Task) -> trajectory_pb2.Task:
    """Options must be JSON values."""
    options = json_format.ParseDict(dict(task.options), struct_pb2.Struct())
    return trajectory_pb2.Task(environment=task.environment, task_id=task.task_id, seed=task.seed, options=options)


def task_from_wire(message: trajectory_pb2.Task) -> Task:
    """Struct knows only doubles: whole numbers come back as integers."""
    options = {name: _whole(value) for name, value in json_format.MessageToDict(message.options).items()}
    return Task(environment=message.environment, task_id=message.task_id, seed=message.seed, options=options)


def turn_to_wire(turn: Turn) -> trajectory_pb2.Turn:
    """None stays absent."""
    return trajectory_pb2.Turn(
        observation=turn.observation,
        text=turn.text,
        action=turn.action,
        valid=turn.valid,
        reward=turn.reward,
        context_token_ids=_ids(turn.context_token_ids),
        token_ids=_ids(turn.token_ids),
        logprobs=numbers_to_wire(turn.logprobs),
        digest=turn.digest,
    )


def turn_from_wire(message: trajectory_pb2.Turn) -> Turn:
    """Absent becomes None."""
    return Turn(
        observation=message.observation,
        text=message.text,
        action=message.action if message.HasField("action") else None,
        valid=message.valid,
        reward=message.reward,
        context_token_ids=tuple(message.context_token_ids.values) if message.HasField("context_token_ids") else None,
        token_ids=tuple(message.token_ids.values) if message.HasField("token_ids") else None,
        logprobs=tuple(message.logprobs.values) if message.HasField("logprobs") else None,
        digest=message.digest if message.HasField("digest") else None,
    )


def trajectory_to_wire(trajectory: Trajectory) -> trajectory_pb2.Trajectory:
    """The whole trajectory."""
    return trajectory_pb2.Trajectory(
        id=trajectory.id,
        task=task_to_wire(trajectory.task),
        policy_version=trajectory.policy_version,
        turns=[turn_to_wire(turn) for turn in trajectory.turns],
        reward=trajectory.reward,
        success=trajectory.success,
        ending=_ENDINGS[trajectory.ending],
    )


def trajectory_from_wire(message: trajectory_pb2.Trajectory) -> Trajectory:
    """Raises ValueError for an ending that this release does not know."""
    if message.ending not in _ENDINGS_READ:
        raise ValueError(f"trajectory.ending: was {message.ending}; expected one of {sorted(_ENDINGS_READ)}")
    return Trajectory(
        id=message.id,
        task=task_from_wire(message.task),
        policy_version=message.policy_version,
        turns=tuple(turn_from_wire(turn) for turn in message.turns),
        reward=message.reward,
        success=message.success,
        ending=_ENDINGS_READ[message.ending],
    )


def attempt_to_wire(attempt: Trajectory | FailedAttempt) -> rollout_pb2.SampleGroupResponse:
    """What became of one attempt of a group."""
    if isinstance(attempt, FailedAttempt):
        failed = rollout_pb2.FailedAttempt(trajectory_id=attempt.trajectory_id, reason=attempt.reason)
        return rollout_pb2.SampleGroupResponse(failed=failed)
    return rollout_pb2.SampleGroupResponse(trajectory=trajectory_to_wire(attempt))


def attempt_from_wire(message: rollout_pb2.SampleGroupResponse) -> Trajectory | FailedAttempt:
    """Raises ValueError for a result that this release does not know."""
    match message.WhichOneof("result"):
        case "trajectory":
            return trajectory_from_wire(message.trajectory)
        case "failed":
            return FailedAttempt(trajectory_id=message.failed.trajectory_id, reason=message.failed.reason)
        case None:
            raise ValueError("result: was of a kind that this release does not know; expected trajectory or failed")


def group_to_wire(group: Group) -> trajectory_pb2.Group:
    """The whole group."""
    return trajectory_pb2.Group(
        task=task_to_wire(group.task),
        policy_version=group.policy_version,
        trajectories=[trajectory_to_wire(trajectory) for trajectory in group.trajectories],
    )


def group_from_wire(message: trajectory_pb2.Group) -> Group:
    """Raises ValueError where the trajectories do not belong together."""
    return Group(
        task=task_from_wire(message.task),
        policy_version=message.policy_version,
        trajectories=tuple(trajectory_from_wire(trajectory) for trajectory in message.trajectories),
    )


def judgement_to_wire(judgement: Judgement) -> judge_pb2.ProposeResponse:
    """A judge's whole answer."""
    cost = judgement.cost
    return judge_pb2.ProposeResponse(
        judge=judgement.judge,
        prompt_version=judgement.prompt_version,
        proposals=[_proposal_to_wire(proposal) for proposal in judgement.proposals],
        no_proposal_reason=judgement.no_proposal_reason,
        cost=judge_pb2.JudgeCost(
            input_tokens=cost.input_tokens,
            output_tokens=cost.output_tokens,
            tool_calls=cost.tool_calls,
            invalid_answers=cost.invalid_answers,
            seconds=cost.seconds,
            usd=cost.usd,
            model_calls=cost.model_calls,
        ),
    )


def judgement_from_wire(message: judge_pb2.ProposeResponse) -> Judgement:
    """Raises ValueError for an answer with neither proposals nor a reason."""
    cost = message.cost
    return Judgement(
        judge=message.judge,
        prompt_version=message.prompt_version,
        proposals=tuple(_proposal_from_wire(proposal) for proposal in message.proposals),
        no_proposal_reason=message.no_proposal_reason,
        cost=JudgeCost(
            input_tokens=cost.input_tokens,
            output_tokens=cost.output_tokens,
            tool_calls=cost.tool_calls,
            invalid_answers=cost.invalid_answers,
            seconds=cost.seconds,
            usd=cost.usd,
            model_calls=cost.model_calls,
        ),
    )


def credited_to_wire(credited: CreditedTrajectory) -> credit_pb2.CreditedTrajectory:
    """A trajectory with its advantages."""
    credit = credited.credit
    turns = [
        credit_pb2.TurnCredit(advantage=turn.advantage, token_advantages=numbers_to_wire(turn.token_advantages))
        for turn in credit.turns
    ]
    return credit_pb2.CreditedTrajectory(
        trajectory=trajectory_to_wire(credited.trajectory),
        credit=credit_pb2.TrajectoryCredit(
            trajectory_id=credit.trajectory_id, group_advantage=credit.group_advantage, turns=turns
        ),
    )


def credited_from_wire(message: credit_pb2.CreditedTrajectory) -> CreditedTrajectory:
    """Raises ValueError where turns and credits do not match."""
    turns = tuple(
        TurnCredit(
            advantage=turn.advantage,
            token_advantages=tuple(turn.token_advantages.values) if turn.HasField("token_advantages") else None,
        )
        for turn in message.credit.turns
    )
    return CreditedTrajectory(
        trajectory=trajectory_from_wire(message.trajectory),
        credit=TrajectoryCredit(
            trajectory_id=message.credit.trajectory_id, group_advantage=message.credit.group_advantage, turns=turns
        ),
    )


def step_metrics_to_wire(metrics: StepMetrics) -> learner_pb2.StepResponse:
    """What one optimizer step did."""
    return learner_pb2.StepResponse(**asdict(metrics))


def step_metrics_from_wire(message: learner_pb2.StepResponse) -> StepMetrics:
    """What one optimizer step did."""
    return StepMetrics(**{field.name: getattr(message, field.name) for field in fields(StepMetrics)})


def policy_to_wire(policy: PolicyInfo) -> rollout_pb2.PolicyInfo:
    """What an engine serves."""
    return rollout_pb2.PolicyInfo(model=policy.model, version=policy.version, max_context=policy.max_context)


def policy_from_wire(message: rollout_pb2.PolicyInfo) -> PolicyInfo:
    """What an engine serves."""
    return PolicyInfo(model=message.model, version=message.version, max_context=message.max_context)


def sampling_to_wire(sampling: Sampling) -> rollout_pb2.SamplingSettings:
    """Stop tokens are the agent's business and stay behind."""
    return rollout_pb2.SamplingSettings(
        temperature=sampling.temperature, top_p=sampling.top_p, max_tokens=sampling.max_tokens
    )


def sampling_from_wire(message: rollout_pb2.SamplingSettings) -> Sampling:
    """Raises ValueError where a setting makes no sense; an absent message would be all zeros, and does not."""
    if not (message.temperature >= 0 and 0 < message.top_p <= 1 and message.max_tokens > 0):
        raise ValueError(
            f"sampling: temperature {message.temperature}, top_p {message.top_p}, max_tokens {message.max_tokens}; "
            "expected temperature >= 0, 0 < top_p <= 1, max_tokens > 0"
        )
    return Sampling(temperature=message.temperature, top_p=message.top_p, max_tokens=message.max_tokens)


def numbers_to_wire(values: Sequence[float] | None) -> trajectory_pb2.Numbers | None:
    """None stays absent."""
    return None if values is None else trajectory_pb2.Numbers(values=values)


def _ids(values: Sequence[int] | None) -> trajectory_pb2.TokenIds | None:
    return None if values is None else trajectory_pb2.TokenIds(values=values)


def _proposal_to_wire(proposal: Proposal) -> judge_pb2.Proposal:
    segment = proposal.segment
    return judge_pb2.Proposal(
        segment=trajectory_pb2.Segment(
            trajectory_id=segment.trajectory_id, first_turn=segment.first_turn, last_turn=segment.last_turn
        ),
        failure_mode=proposal.failure_mode,
        reason=proposal.reason,
        judge=proposal.judge,
        prompt_version=proposal.prompt_version,
        repairs=proposal.repairs,
    )


def _proposal_from_wire(message: judge_pb2.Proposal) -> Proposal:
    segment = message.segment
    return Proposal(
        segment=Segment(
            trajectory_id=segment.trajectory_id, first_turn=segment.first_turn, last_turn=segment.last_turn
        ),
        failure_mode=message.failure_mode,
        reason=message.reason,
        judge=message.judge,
        prompt_version=message.prompt_version,
        repairs=message.repairs,
    )


def _whole(value: object) -> object:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {name: _whole(item) for name, item in value.items()}
    return value
