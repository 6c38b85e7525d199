"""A client of any OpenAI-compatible chat server, as far as a judge needs one.

Retries what may pass (429, 5xx, a lost connection), at most `attempts` times and never past the caller's deadline.
What cannot pass is told apart: `Refused` is about this way of asking (the caller may try a plainer one), `ChatError`
about the server.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import httpx

from services.judge.fencing import plain
from services.judge.tools import Call

_MOST_BYTES = 4_000_000
_FIRST_WAIT_S = 0.25
_LONGEST_WAIT_S = 10.0


class ChatError(Exception):
    """The server did not answer, or not in a way that can be used."""


class Refused(ChatError):
    """The server answered that it cannot be asked in this way (400, 422, 501)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the model wrote, and what the server counted (None where it did not count)."""

    text: str
    calls: tuple[Call, ...]
    prompt_tokens: int | None
    completion_tokens: int | None


class ChatClient:
    """One server. Belongs to the event loop that it is used on."""

    def __init__(self, http: httpx.AsyncClient, *, url: str, api_key: str, attempts: int = 4) -> None:
        self._http = http
        self._url = url.rstrip("/") + "/chat/completions"
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._attempts = attempts
        self._limit_field = "max_tokens"

    async def complete(self, request: Mapping[str, object]) -> Reply:
        """Sends one request. Raises ChatError, or Refused. The caller bounds the time."""
        for attempt in range(self._attempts):
            last = attempt == self._attempts - 1
            try:
                status, headers, body = await self._post(request)
            except (httpx.TransportError, httpx.DecodingError) as error:
                if last:
                    raise ChatError(f"{self._url}: {type(error).__name__} after {self._attempts} attempts") from error
                await asyncio.sleep(_FIRST_WAIT_S * 2**attempt)
                continue
            if status == 200:
                return read_reply(body)
            said = f"{self._url}: answered {status}: {plain(body.decode(errors='replace'), 300)}"
            if status == 400 and b"max_completion_tokens" in body and self._limit_field == "max_tokens" and not last:
                self._limit_field = "max_completion_tokens"  # what OpenAI calls it now
                continue
            if status in (400, 422, 501):
                raise Refused(said)
            if last or not (status == 429 or status >= 500):
                raise ChatError(said)
            await asyncio.sleep(_wait_s(headers, attempt))
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _post(self, request: Mapping[str, object]) -> tuple[int, httpx.Headers, bytes]:
        body = bytearray()
        fields = {self._limit_field if name == "max_tokens" else name: value for name, value in request.items()}
        async with self._http.stream("POST", self._url, json=fields, headers=self._headers) as response:
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > _MOST_BYTES:
                    raise ChatError(f"{self._url}: answered more than {_MOST_BYTES} bytes")
            return response.status_code, response.headers, bytes(body)


def read_reply(body: bytes) -> Reply:
    """The parts of a chat completion that count. Raises ChatError where it is none."""
    try:
        answer = json.loads(body)
        choice = answer["choices"][0]
        message = cast("dict[str, Any]", choice["message"])
        text = message.get("content") or ""
        calls = tuple(_call(one, place) for place, one in enumerate(message.get("tool_calls") or ()))
        usage = answer.get("usage") or {}
        prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise ChatError(f"not a chat completion: {plain(body.decode(errors='replace'), 200)!r}") from error
    return Reply(
        text=text if isinstance(text, str) else "",
        calls=calls,
        prompt_tokens=prompt if isinstance(prompt, int) and prompt >= 0 else None,
        completion_tokens=completion if isinstance(completion, int) and completion >= 0 else None,
    )


def _call(raw: Mapping[str, Any], place: int) -> Call:
    """Arguments that are no JSON object become a call without arguments; the tool then says what it misses."""
    function = raw["function"]
    try:
        arguments = json.loads(function.get("arguments") or "{}")
    except (ValueError, TypeError, RecursionError):
        arguments = {}
    return Call(
        name=str(function["name"]),
        arguments=cast("dict[str, object]", arguments) if isinstance(arguments, dict) else {},
        id=str(raw.get("id") or f"call_{place}"),
    )


def _wait_s(headers: httpx.Headers, attempt: int) -> float:
    try:
        asked = float(headers.get("retry-after", "0"))
    except ValueError:
        asked = 0.0  # a date: the back-off decides
    wait = max(asked, _FIRST_WAIT_S * 2**attempt)
    return min(wait, _LONGEST_WAIT_S) if wait == wait else _LONGEST_WAIT_S


def assistant_message(reply: Reply) -> dict[str, object]:
    """The reply as the next request repeats it."""
    message: dict[str, object] = {"role": "assistant", "content": reply.text or ("" if reply.calls else "(empty)")}
    if reply.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for call in reply.calls
        ]
    return message


def tool_results(calls: Sequence[Call], results: Sequence[str]) -> list[dict[str, object]]:
    """One message for each call: servers refuse a conversation in which one is missing."""
    return [
        {"role": "tool", "tool_call_id": call.id, "content": result}
        for call, result in zip(calls, results, strict=True)
    ]
