"""The ways of asking a chat server: native tool calls, or one JSON object a reply with whatever help the server offers.

Tried in the order of `Mode`; a server that refuses one is asked by the next. In every mode a reply is read as calls of
the same three tools: search_trajectory, get_segment and answer.
"""

from collections.abc import Mapping
from enum import StrEnum
from hashlib import sha256
from importlib.resources import files
from typing import Any, cast

from pydantic import BaseModel

from services.judge.answers import Answer, Answers, last_object
from services.judge.chat import Reply
from services.judge.question import ProposeLimits
from services.judge.tools import Call, GetSegment, Search

PROMPT_RELEASE = "1"
_FLAT_ANSWER = (
    '{"tool": "answer", "failure_mode": "TEXT", "trajectory_id": "ID", "first_turn": 0, "last_turn": 0, '
    '"reason": "TEXT"}'
)
_MANY_ANSWER = (
    '{"tool": "answer", "proposals": [{"failure_mode": "TEXT", "trajectory_id": "ID", "first_turn": 0, '
    '"last_turn": 0, "reason": "TEXT"}]}'
)


class Mode(StrEnum):
    """How the server is asked, from the most helpful to the plainest."""

    TOOLS = "tools"  # native tool calls
    JSON_SCHEMA = "json_schema"  # response_format of OpenAI
    STRUCTURED_OUTPUTS = "structured_outputs"  # vLLM's own field
    JSON_OBJECT = "json_object"  # any JSON
    PLAIN = "plain"  # nothing but the prompt


def system_prompt(mode: Mode, limits: ProposeLimits) -> str:
    """The instructions, with the part about how to reply."""
    several = f" with up to {limits.max_proposals} segments, best first" if limits.max_proposals > 1 else ""
    how = _prompt("native" if mode is Mode.TOOLS else "text")
    how = how.replace("{answer}", _MANY_ANSWER if several else _FLAT_ANSWER).replace("{several}", several)
    rules = _prompt("system").replace("{max_action_turns}", str(limits.max_action_turns))
    return f"{rules}\n{how}"


def prompt_version() -> str:
    """The release of the prompts and a hash of their text, so that two results with one name read the same words."""
    text = "\n".join(_prompt(name) for name in ("system", "native", "text"))
    return f"{PROMPT_RELEASE}-{sha256(text.encode()).hexdigest()[:8]}"


def request_fields(mode: Mode, *, several: bool, final: bool) -> dict[str, object]:
    """What a request holds beside model and messages. A final request offers nothing but the answer."""
    tools: list[tuple[str, type[BaseModel]]] = [("answer", Answers if several else Answer)]
    if not final:
        tools = [("search_trajectory", Search), ("get_segment", GetSegment), *tools]
    match mode:
        case Mode.TOOLS:
            return {"tools": [_function(name, model) for name, model in tools], "tool_choice": "auto"}
        case Mode.JSON_SCHEMA:
            schema = {"name": "call", "strict": True, "schema": _reply_schema(tools)}
            return {"response_format": {"type": "json_schema", "json_schema": schema}}
        case Mode.STRUCTURED_OUTPUTS:
            return {"structured_outputs": {"json": _reply_schema(tools)}}
        case Mode.JSON_OBJECT:
            return {"response_format": {"type": "json_object"}}
        case Mode.PLAIN:
            return {}


def read_calls(reply: Reply) -> tuple[Call, ...]:
    """The tool calls of a reply: the server's, or else the one that its text holds. Empty where there is none."""
    if reply.calls:
        return reply.calls
    found = last_object(reply.text)
    if found is None:
        return ()
    inner = found.get("call")
    fields: Mapping[str, object] = cast("dict[str, object]", inner) if isinstance(inner, dict) else found
    name = fields.get("tool", fields.get("name"))
    if name is None and ("first_turn" in fields or "proposals" in fields):
        name = "answer"
    arguments = fields.get("arguments")
    if not isinstance(arguments, dict):
        arguments = {key: value for key, value in fields.items() if key not in ("tool", "name")}
    return (Call(name=str(name), arguments=cast("dict[str, object]", arguments)),)


def _prompt(name: str) -> str:
    return (files("services.judge") / "prompts" / f"{name}.md").read_text(encoding="utf-8")


def _function(name: str, model: type[BaseModel]) -> dict[str, object]:
    schema = model.model_json_schema()
    described = {"name": name, "description": schema.pop("description", ""), "parameters": schema}
    return {"type": "function", "function": described}


def _reply_schema(tools: list[tuple[str, type[BaseModel]]]) -> dict[str, object]:
    """{"call": one of the tools}: strict servers want an object at the top, and every field named and required."""
    choices: list[dict[str, object]] = []
    for name, model in tools:
        properties: dict[str, object] = {"tool": {"type": "string", "const": name}}
        if model is Answers:
            properties["proposals"] = {"type": "array", "items": _object(_properties(Answer))}
        else:
            properties |= _properties(model)
        choices.append(_object(properties))
    return _object({"call": {"anyOf": choices}})


def _properties(model: type[BaseModel]) -> dict[str, object]:
    fields = cast("dict[str, dict[str, Any]]", model.model_json_schema()["properties"])
    return {name: {"type": field["type"]} for name, field in fields.items()}


def _object(properties: Mapping[str, object]) -> dict[str, object]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }
