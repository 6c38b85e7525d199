"""What the gateway answers, as it answers it: JSON documents with types. docs/rest.md says what the fields mean."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NotRequired, TypedDict

Json = object
"""A JSON value. Task options are the caller's own, so nothing more can be said of it."""


class Proposal(TypedDict):
    """Where the judge says to look. Both turns are inside."""

    trajectory_id: str
    first_turn: int
    last_turn: int
    failure_mode: str
    reason: str
    judge: str
    prompt_version: str
    repairs: int


class Count(TypedDict):
    """Continuations of one boundary. `policy_versions` are those that played them; empty where nobody said, and not
    there where the service is of an earlier release."""

    successes: int
    samples: int
    policy_versions: NotRequired[list[str]]


class Tokens(TypedDict):
    """Tokens that continuations sampled."""

    before: int
    after: int


class Verification(TypedDict):
    """What outcomes say of the segment."""

    before: Count
    after: Count
    delta: float
    interval: list[float]
    probability_positive: float
    bonus: float
    stopped_because: str
    tokens: Tokens


class SegmentResult(TypedDict):
    """One proposal and what became of it. `sides` are the names of the boundaries before and after it."""

    proposal: Proposal
    verification: Verification | None
    sides: list[str]


class JudgeCost(TypedDict):
    """What the judgement cost."""

    input_tokens: int
    output_tokens: int
    tool_calls: int
    invalid_answers: int
    seconds: float
    usd: float
    model_calls: int


class Cost(TypedDict):
    """What the analysis has cost so far."""

    judge: JudgeCost | None
    continuations: int
    continuation_tokens: int


class Summary(TypedDict):
    """One line of the list. Times are RFC 3339."""

    id: str
    status: str
    policy_version: str
    created_at: str
    updated_at: str
    proposal: Proposal | None
    verification: Verification | None
    error: str | None
    note: str | None


class Analysis(Summary):
    """The whole answer."""

    options: dict[str, Json]
    segments: list[SegmentResult]
    cost: Cost


class Page(TypedDict):
    """Analyses, newest first. `next` is the `before` of the next page; None on the last."""

    analyses: list[Summary]
    next: str | None


class TurnAdvantage(TypedDict):
    """One turn; one number for each sampled token where token ids were given."""

    turn: int
    advantage: float
    token_advantages: list[float] | None


class TrajectoryAdvantages(TypedDict):
    """One trajectory; `group_advantage` is that before the segment's bonus."""

    trajectory_id: str
    group_advantage: float
    turns: list[TurnAdvantage]


class Advantages(TypedDict):
    """One entry a trajectory, in the order of the group."""

    trajectories: list[TrajectoryAdvantages]


class Request(TypedDict):
    """Continuations that the caller is asked for, from the state before turn `before_turn`."""

    request_id: str
    trajectory_id: str
    before_turn: int
    samples: int


class Requests(TypedDict):
    """The analysis' status, and the requests that still lack outcomes."""

    status: str
    requests: list[Request]


class PlayedOutcome(TypedDict):
    """How one continuation ended that the caller has played; `sample` counts from 0 within its request."""

    request_id: str
    sample: int
    success: bool
    reward: float
    tokens: int


class Taken(TypedDict):
    """How many outcomes were new, and how many changed nothing."""

    accepted: int
    duplicates: int


class KeptContinuation(TypedDict):
    """One continuation. `trajectory` is a Trajectory as JSON; `continuations_to_nouns` reads it."""

    sample: int
    advantage: float
    trajectory: dict[str, Json]


class KeptBoundary(TypedDict):
    """The continuations of one boundary, a group of their own."""

    side: str
    trajectory_id: str
    before_turn: int
    continuations: list[KeptContinuation]


class Continuations(TypedDict):
    """One entry for each boundary that something was played from."""

    boundaries: list[KeptBoundary]


class Policy(TypedDict):
    """What the policy engine serves now."""

    model: str
    version: str


class AuditWindow(TypedDict):
    """The audits that count. Times are RFC 3339; None without audits."""

    audits: int
    first_at: str | None
    last_at: str | None


class FeatureRecord(TypedDict):
    """What audits say of the proposals that have one value of a feature; `shift` is added to the record for them."""

    feature: str
    value: str
    audits: int
    mean_delta: float
    shift: float


class AuditRecord(TypedDict):
    """What audits say of a judge with one prompt, in one environment, on the policies of one engine."""

    prompt_version: str
    environment: str
    policy: str
    audits: int
    window: AuditWindow
    mean_delta: float
    interval: list[float]
    acceptance_rate: float | None
    record: float
    next_bonus: float
    features: list[FeatureRecord]


JudgeRecord = TypedDict(
    "JudgeRecord", {"judge": str, "mode": str, "lambda": float, "window": int, "records": list[AuditRecord]}
)
"""A judge's verified record. No `records` where it was never audited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event of an analysis: "status" or "outcome"."""

    id: str
    event: str
    data: Mapping[str, Json]
