"""What a caller gets: pydantic models of the answers, made from the nouns."""

from collections.abc import Sequence
from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict, Field

from prover.analysis import Analysis
from prover.boundaries import sides
from prover.trajectory import BoundaryCount, Judgement, TrajectoryCredit, Verification
from services.gateway.models import OptionsIn


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True)


class Accepted(_Answer):
    """`POST /v1/analyses`."""

    id: str
    status: str


class ProposalOut(_Answer):
    """Where the judge says to look. Both turns are inside."""

    trajectory_id: str
    first_turn: int
    last_turn: int
    failure_mode: str
    reason: str
    judge: str
    prompt_version: str
    repairs: int


class CountOut(_Answer):
    """Continuations of one boundary."""

    successes: int
    samples: int
    policy_versions: list[str] = Field(
        description="Which versions of the policy played them: with allowed_lag, other ones than the group's. Empty "
        "where nothing was played, in pull mode, and in analyses that an earlier release played."
    )


class TokensOut(_Answer):
    """Tokens that continuations sampled."""

    before: int
    after: int


class VerificationOut(_Answer):
    """What outcomes say of the segment. `bonus` is what was added to its tokens, lambda included."""

    before: CountOut
    after: CountOut
    delta: float
    interval: tuple[float, float] = Field(
        description="90% interval of delta: a credible one in modes adaptive and audited, Newcombe's confidence "
        "interval in fixed and frugal."
    )
    probability_positive: float
    bonus: float
    stopped_because: str
    tokens: TokensOut


class SegmentOut(_Answer):
    """One proposal and what became of it. `sides` are the names of the boundaries before and after it, in events and
    in requests; two segments that meet share one."""

    proposal: ProposalOut
    verification: VerificationOut | None
    sides: tuple[str, str]


class JudgeCostOut(_Answer):
    """What the judgement cost."""

    input_tokens: int
    output_tokens: int
    tool_calls: int
    invalid_answers: int
    seconds: float
    usd: float
    model_calls: int = Field(description="Requests that a model answered; 0 of a judge without one.")


class CostOut(_Answer):
    """What the analysis has cost so far."""

    judge: JudgeCostOut | None
    continuations: int
    continuation_tokens: int


class AnalysisOut(_Answer):
    """`GET /v1/analyses/{id}`."""

    id: str
    status: str
    policy_version: str
    created_at: datetime
    updated_at: datetime
    options: OptionsIn
    proposal: ProposalOut | None = Field(description="The first of `segments`.")
    verification: VerificationOut | None
    segments: list[SegmentOut] = Field(description="Every proposal with its verification, the judge's best first.")
    cost: CostOut
    error: str | None = Field(description="Why it failed, in words that a person can act on.")
    note: str | None = Field(description="What a reader should know of how the answer came about.")


class SummaryOut(_Answer):
    """One line of the list."""

    id: str
    status: str
    policy_version: str
    created_at: datetime
    updated_at: datetime
    proposal: ProposalOut | None
    verification: VerificationOut | None
    error: str | None
    note: str | None


class ListOut(_Answer):
    """`GET /v1/analyses`, newest first. `next` is the `before` of the next page; null on the last."""

    analyses: list[SummaryOut]
    next: str | None


class TurnAdvantageOut(_Answer):
    """One turn. `token_advantages` has one number for each sampled token; null where no token ids were given."""

    turn: int
    advantage: float
    token_advantages: list[float] | None


class TrajectoryAdvantagesOut(_Answer):
    """One trajectory. `group_advantage` is that before the segment's bonus."""

    trajectory_id: str
    group_advantage: float
    turns: list[TurnAdvantageOut]


class AdvantagesOut(_Answer):
    """`GET /v1/analyses/{id}/advantages`."""

    trajectories: list[TrajectoryAdvantagesOut]


class PolicyOut(_Answer):
    """`GET /v1/policy`."""

    model: str
    version: str


class ReadyOut(_Answer):
    """`GET /readyz`: each dependency with "ok" or what is wrong with it."""

    ready: bool
    dependencies: dict[str, str]


class MistakeOut(_Answer):
    """One thing that is wrong with a request."""

    field: str
    was: str
    expected: str


class ProblemOut(_Answer):
    """A problem document (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[MistakeOut] | None = None


def analysis_out(analysis: Analysis, counts: Sequence[BoundaryCount]) -> AnalysisOut:
    """The whole answer; `counts` are the outcomes so far, one for each boundary."""
    judgement = analysis.judgement
    return AnalysisOut(
        **summary_out(analysis).model_dump(),
        options=_options(analysis),
        segments=_segments(analysis),
        cost=CostOut(
            judge=None if judgement is None else JudgeCostOut.model_validate(judgement.cost, from_attributes=True),
            continuations=sum(count.samples for count in counts),
            continuation_tokens=sum(count.tokens for count in counts),
        ),
    )


def summary_out(analysis: Analysis) -> SummaryOut:
    """The line of the list."""
    judgement = analysis.judgement
    reason = judgement.no_proposal_reason if judgement is not None else ""
    return SummaryOut(
        id=analysis.id,
        status=analysis.status.value,
        policy_version=analysis.policy_version,
        created_at=datetime.fromtimestamp(analysis.created_at, UTC),
        updated_at=datetime.fromtimestamp(analysis.updated_at, UTC),
        proposal=_proposal(judgement, 0) if judgement is not None and judgement.proposals else None,
        verification=None if analysis.verification is None else _verification(analysis.verification),
        error=analysis.error,
        note=analysis.note or reason or None,
    )


def advantages_out(credit: Sequence[TrajectoryCredit]) -> AdvantagesOut:
    """The advantages, in the order of the group."""
    return AdvantagesOut(
        trajectories=[
            TrajectoryAdvantagesOut(
                trajectory_id=trajectory.trajectory_id,
                group_advantage=trajectory.group_advantage,
                turns=[
                    TurnAdvantageOut(
                        turn=number,
                        advantage=turn.advantage,
                        token_advantages=None if turn.token_advantages is None else list(turn.token_advantages),
                    )
                    for number, turn in enumerate(trajectory.turns)
                ],
            )
            for trajectory in credit
        ]
    )


def _options(analysis: Analysis) -> OptionsIn:
    options = analysis.options
    names = (name for name in OptionsIn.model_fields if name != "weight")
    return OptionsIn.model_validate({"lambda": options.weight, **{name: getattr(options, name) for name in names}})


def _segments(analysis: Analysis) -> list[SegmentOut]:
    judgement, verdicts = analysis.judgement, analysis.verifications
    if judgement is None:
        return []
    names = sides([proposal.segment for proposal in judgement.proposals])
    return [
        SegmentOut(
            proposal=_proposal(judgement, number),
            verification=_verification(verdicts[number]) if verdicts else None,
            sides=named,
        )
        for number, named in enumerate(names)
    ]


def _proposal(judgement: Judgement, number: int) -> ProposalOut:
    proposal = judgement.proposals[number]
    return ProposalOut(
        trajectory_id=proposal.segment.trajectory_id,
        first_turn=proposal.segment.first_turn,
        last_turn=proposal.segment.last_turn,
        failure_mode=proposal.failure_mode,
        reason=proposal.reason,
        judge=proposal.judge,
        prompt_version=proposal.prompt_version or judgement.prompt_version,
        repairs=proposal.repairs,
    )


def _verification(verification: Verification) -> VerificationOut:
    before, after = verification.before, verification.after
    return VerificationOut(
        before=CountOut.model_validate(before, from_attributes=True),
        after=CountOut.model_validate(after, from_attributes=True),
        delta=verification.delta,
        interval=verification.interval,
        probability_positive=verification.probability_positive,
        bonus=verification.bonus,
        stopped_because=verification.stopped_because,
        tokens=TokensOut(before=before.tokens, after=after.tokens),
    )
