"""Reads a JSON body without ever holding more of it than is allowed."""

import asyncio

from fastapi import Request

from services.gateway.problems import Mistake, Problem, invalid_parameter

_LIMIT_S = 120.0


async def read_json_body(request: Request, *, limit: int) -> bytes:
    """The body, at most `limit` bytes. Problem 415, 413 or 408.

    The bytes are counted as they come: Content-Length may be missing or wrong. Up to as many again are read and thrown
    away, so that a client that sends before it listens hears the answer.
    """
    _check_type(request)
    body = bytearray()
    total = 0
    try:
        async with asyncio.timeout(_LIMIT_S):
            async for chunk in request.stream():
                total += len(chunk)
                if total > 2 * limit:
                    break
                if total <= limit:
                    body += chunk
    except TimeoutError as error:
        raise Problem(408, "too-slow", "The body did not arrive", detail=f"expected it within {_LIMIT_S} s") from error
    if total > limit:
        mistake = Mistake(field="body", was=_size(request, total), expected=f"at most {limit} bytes")
        raise Problem(413, "too-large", "The body is too large", mistakes=[mistake])
    return bytes(body)


def _check_type(request: Request) -> None:
    given = request.headers.get("content-type", "")
    if given.partition(";")[0].strip().lower() != "application/json":
        mistake = Mistake(field="Content-Type", was=repr(given) if given else "nothing", expected="application/json")
        raise Problem(415, "wrong-type", "The body is of another type", mistakes=[mistake])
    encoding = request.headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        mistake = Mistake(field="Content-Encoding", was=repr(encoding), expected="no encoding")
        raise Problem(415, "wrong-encoding", "The body is encoded", mistakes=[mistake])
    length = request.headers.get("content-length")
    if length is not None and not length.isdecimal():
        raise invalid_parameter("Content-Length", length, "a number of bytes")


def _size(request: Request, total: int) -> str:
    declared = request.headers.get("content-length")
    return f"{declared} bytes" if declared else f"{total} bytes or more"
