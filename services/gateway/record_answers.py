"""What a caller gets who asks for a judge's record."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict, Field

from prover.credit.modes import MODES
from prover.credit.record import WINDOW, audited_bonus, mean_interval, record_delta
from services.gateway.examples import RECORD_EXAMPLE
from services.gateway.judge_records import KeptRecord

_MODE = "audited"


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True)


class WindowOut(_Answer):
    """The audits that count."""

    audits: int
    first_at: datetime | None
    last_at: datetime | None


class FeatureOut(_Answer):
    """What audits say of the proposals that have one value of a feature."""

    feature: str = Field(description="kind (of the task), rate (the group's success rate) or position (the segment's).")
    value: str
    audits: int = Field(description="Of the last 256.")
    mean_delta: float
    shift: float = Field(description="What is added to `record` for such a proposal; 0 with too few audits.")


class RecordOut(_Answer):
    """What audits say of a judge with one prompt, in one environment, on the policies of one engine."""

    prompt_version: str
    environment: str
    policy: str
    audits: int = Field(description="All that are kept, those that have left the window among them.")
    window: WindowOut
    mean_delta: float = Field(description="Of the window; 0 without audits.")
    interval: tuple[float, float] = Field(description="90% confidence interval of the mean delta.")
    acceptance_rate: float | None = Field(description="Share of the window's audits with delta > 0; null without any.")
    record: float = Field(description="The mean delta shrunk towards 0: what the mode pays by.")
    next_bonus: float = Field(
        description="What the next proposal that is not audited is paid, at the mode's lambda and before any shift."
    )
    features: list[FeatureOut] = Field(description="Where the judge is better or worse than its record.")


class JudgeRecordOut(_Answer):
    """`GET /v1/judges/{judge}/record`. No records where the judge was never audited."""

    model_config = ConfigDict(frozen=True, json_schema_extra={"examples": [RECORD_EXAMPLE]})

    judge: str
    mode: str = Field(description="The mode that keeps and pays by the record.")
    weight: float = Field(serialization_alias="lambda", description="The mode's lambda.")
    window: int = Field(description="Most audits that count.")
    records: list[RecordOut]


def judge_record_out(judge: str, kept: Sequence[KeptRecord]) -> JudgeRecordOut:
    """The answer, in the order of `kept`."""
    weight = MODES[_MODE].weight
    records = [_record(one, weight) for one in kept]
    return JudgeRecordOut(judge=judge, mode=_MODE, weight=weight, window=WINDOW, records=records)


def _record(kept: KeptRecord, weight: float) -> RecordOut:
    deltas, times = kept.deltas, [datetime.fromtimestamp(audit.at, UTC) for audit in kept.audits]
    return RecordOut(
        prompt_version=kept.key.prompt_version,
        environment=kept.key.environment,
        policy=kept.key.policy,
        audits=kept.kept,
        window=WindowOut(
            audits=len(deltas), first_at=times[0] if times else None, last_at=times[-1] if times else None
        ),
        mean_delta=sum(deltas) / len(deltas) if deltas else 0.0,
        interval=mean_interval(deltas),
        acceptance_rate=sum(delta > 0 for delta in deltas) / len(deltas) if deltas else None,
        record=record_delta(deltas),
        next_bonus=audited_bonus(deltas, weight=weight),
        features=[
            FeatureOut(feature=feature, value=value, **asdict(one))
            for feature, values in kept.told.items()
            for value, one in values.items()
        ],
    )
