"""How the nouns are written in Redis and in documents: JSON, by pydantic, read back into the same checked nouns."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from prover.analysis import Analysis, Options, Round
from prover.lifecycle import Status
from prover.protocol import check_protocol
from prover.trajectory import Group, Judgement, Outcome, Trajectory, TrajectoryCredit, Verification

GROUP: TypeAdapter[Group] = TypeAdapter(Group)
CREDIT: TypeAdapter[tuple[TrajectoryCredit, ...]] = TypeAdapter(tuple[TrajectoryCredit, ...])
OUTCOME: TypeAdapter[Outcome] = TypeAdapter(Outcome)
TRAJECTORY: TypeAdapter[Trajectory] = TypeAdapter(Trajectory)
_FIELDS: Mapping[str, TypeAdapter[Any]] = {
    "options": TypeAdapter(Options),
    "judgement": TypeAdapter(Judgement),
    "round": TypeAdapter(Round),
    "verifications": TypeAdapter(tuple[Verification, ...]),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of an analysis' history. `id` orders them and is what a reader resumes from."""

    id: str
    event: str
    data: Mapping[str, object]


def encode(name: str, value: object) -> str:
    """One field of an analysis' record, as text."""
    adapter = _FIELDS.get(name)
    return adapter.dump_json(value).decode() if adapter else str(value)


def plain(fields: Mapping[str, object]) -> dict[str, object]:
    """Fields as JSON values, for an event."""
    return {name: json.loads(encode(name, value)) if name in _FIELDS else value for name, value in fields.items()}


def analysis(analysis_id: str, record: Mapping[str, str]) -> Analysis:
    """An analysis from its record. Raises NewerAnalysis where this process cannot read it and a later one can."""
    protocol = int(record.get("protocol", 1))
    try:
        decoded: dict[str, Any] = {
            name: adapter.validate_json(record[name]) for name, adapter in _FIELDS.items() if name in record
        }
        status = Status(record["status"])
    except ValueError:
        check_protocol(protocol)
        raise
    return Analysis(
        id=analysis_id,
        status=status,
        policy_version=record["policy_version"],
        created_at=float(record["created_at"]),
        updated_at=float(record["updated_at"]),
        attempts=int(record["attempts"]),
        protocol=protocol,
        error=record.get("error"),
        note=record.get("note"),
        **decoded,
    )


def event(entry: tuple[str, Mapping[str, str]]) -> Event:
    """An event from its entry in the stream."""
    event_id, fields = entry
    return Event(id=event_id, event=fields["event"], data=json.loads(fields["data"]))
