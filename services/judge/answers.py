"""From a model's final answer to proposals, or to what is wrong with it in words that the model can act on."""

import json
from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from prover.credit.segments import overlap, segment_fault
from prover.trajectory import Proposal, Segment, Trajectory
from services.judge.fencing import plain
from services.judge.question import ProposeLimits
from services.judge.tools import faults

_MOST_WORDS_CHARS = 600
_MOST_OBJECTS = 64


class Answer(BaseModel):
    """Name the segment of the successful trajectory that made the difference."""

    model_config = ConfigDict(extra="ignore")
    failure_mode: str = Field(min_length=1, description="One mistake that recurs across the failed trajectories.")
    trajectory_id: str = Field(description="The id of the successful trajectory.")
    first_turn: int = Field(description="The first turn of the segment.")
    last_turn: int = Field(description="The last turn of the segment, itself inside.")
    reason: str = Field(min_length=1, description="How these turns solve or avoid that mistake.")


class Answers(BaseModel):
    """Name the segments of the successful trajectory that made the difference, best first, sharing no turn."""

    model_config = ConfigDict(extra="ignore")
    proposals: list[Answer] = Field(min_length=1)


def read_answer(
    arguments: Mapping[str, object], anchor: Trajectory, limits: ProposeLimits
) -> tuple[list[Proposal], list[str]]:
    """The valid proposals of an answer, at most as many as were asked for, and the faults of the others."""
    try:
        if "proposals" in arguments:
            answers = Answers.model_validate(arguments).proposals[: limits.max_proposals]
        else:
            answers = [Answer.model_validate(arguments)]
    except ValidationError as error:
        return [], [faults(error)]
    good: list[Proposal] = []
    wrong: list[str] = []
    for answer in answers:
        proposal = _proposal(answer, anchor, limits)
        if isinstance(proposal, str):
            wrong.append(proposal)
        elif any(overlap(proposal.segment, other.segment) for other in good):
            wrong.append(f"turns {answer.first_turn} to {answer.last_turn}: they share a turn with a better segment")
        else:
            good.append(proposal)
    return good, wrong


def _proposal(answer: Answer, anchor: Trajectory, limits: ProposeLimits) -> Proposal | str:
    first, last = answer.first_turn, answer.last_turn
    if not 0 <= first <= last:
        return f"turns {first} to {last}: expected 0 <= first_turn <= last_turn"
    segment = Segment(trajectory_id=answer.trajectory_id, first_turn=first, last_turn=last)
    fault = segment_fault(segment, anchor, max_action_turns=limits.max_action_turns)
    if fault is not None:
        return plain(fault, _MOST_WORDS_CHARS)
    return Proposal(
        segment=segment,
        failure_mode=plain(answer.failure_mode, _MOST_WORDS_CHARS),
        reason=plain(answer.reason, _MOST_WORDS_CHARS),
        judge="llm",
    )


def last_object(text: str) -> Mapping[str, object] | None:
    """The last JSON object in a text, whatever stands around it (thinking, code fences, chatter); None without one."""
    decoder, found, start = json.JSONDecoder(), None, text.find("{")
    for _ in range(_MOST_OBJECTS):
        if start < 0:
            break
        end = start + 1
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            found = cast("dict[str, Any]", value)
        start = text.find("{", end)
    return found
