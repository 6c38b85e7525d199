"""A policy engine that only waits: for benches of everything around an engine.

    python -m bench.simulated_engine 8000 --median-s 1.0

It speaks what prover.policies.client asks of an engine. Each turn takes a time of its own, drawn from a log-normal
distribution, however many are under way: an engine whose batch never fills. Its policy opens a door of the chain
environment (prover.environments.chain), red or blue with equal chances; its tokens are code points. It parses by hand
what it must, and nothing else, so that the processor is left to the services.
"""

import argparse
import asyncio
import contextlib
import json
import math
import random
from collections.abc import Mapping
from typing import Any

from prover.environments.chain import DOORS

MODEL = "simulated"
VERSION = "v0"
MAX_CONTEXT = 100_000
_SPREAD = 0.35
"""Standard deviation of the logarithm: nine turns in ten take 0.56 to 1.78 times the median."""

_REASONS = {200: "OK", 404: "Not Found"}


class SimulatedEngine:
    """Bound to one event loop. Counts what a bench wants to know of it."""

    def __init__(self, *, median_s: float, seed: int) -> None:
        self._median_s = median_s
        self._random = random.Random(seed)
        self._turns = 0
        self._asked_s = 0.0
        self._late_s = 0.0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, kept for as many requests as come."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                line, *headers = head.split("\r\n")
                method, path, _ = line.split(" ")
                body = await reader.readexactly(_length(headers))
                status, answer = await self._answer(method, path, body)
                content = json.dumps(answer).encode()
                writer.write(
                    f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-type: application/json\r\n"
                    f"content-length: {len(content)}\r\n\r\n".encode()
                    + content
                )
                await writer.drain()
        writer.close()

    async def _answer(self, method: str, path: str, body: bytes) -> tuple[int, Mapping[str, Any]]:
        match method, path:
            case "POST", "/v1/completions":
                return 200, await self._complete(int(json.loads(body)["max_tokens"]))
            case "POST", "/tokenize":
                return 200, {"tokens": [ord(letter) for letter in json.loads(body)["prompt"]]}
            case "GET", "/v1/models":
                card = {"id": MODEL, "max_model_len": MAX_CONTEXT, "weights_version": VERSION}
                return 200, {"data": [card]}
            case "GET", "/counted":
                return 200, {"turns": self._turns, "asked_s": self._asked_s, "late_s": self._late_s}
            case _:
                return 404, {"error": f"no {method} {path} here"}

    async def _complete(self, max_tokens: int) -> Mapping[str, Any]:
        clock = asyncio.get_running_loop().time
        pause_s = self._random.lognormvariate(math.log(self._median_s), _SPREAD)
        due = clock() + pause_s
        await asyncio.sleep(pause_s)
        self._turns += 1
        self._asked_s += pause_s
        self._late_s += clock() - due
        text = f"open {self._random.choice(DOORS)} door\n"[:max_tokens]
        choice = {
            "text": text.removesuffix("\n"),
            "finish_reason": "stop" if text.endswith("\n") else "length",
            "token_ids": [ord(letter) for letter in text],
            "logprobs": {"token_logprobs": [math.log(0.5), *(0.0 for _ in text[1:])]},
        }
        return {"model": MODEL, "weights_version": VERSION, "choices": [choice]}


def _length(headers: list[str]) -> int:
    for header in headers:
        name, _, value = header.partition(":")
        if name.lower() == "content-length":
            return int(value)
    return 0


def main() -> None:
    """Serves until it is killed."""
    parser = argparse.ArgumentParser(prog="python -m bench.simulated_engine", description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("--median-s", type=float, default=1.0, help="of a turn, in seconds (default: 1)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    asyncio.run(_serve(options.port, SimulatedEngine(median_s=options.median_s, seed=options.seed)))


async def _serve(port: int, engine: SimulatedEngine) -> None:
    server = await asyncio.start_server(engine.serve, "127.0.0.1", port, limit=2**20, backlog=1024)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    main()
