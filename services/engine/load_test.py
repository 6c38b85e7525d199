"""How many tokens a second an engine samples: `python -m services.engine.load_test --url http://127.0.0.1:8100`.

Every request has a prompt of its own, so nothing of it is there before; then it samples without stopping. Works on a
vLLM server as well.
"""

import asyncio
import random
import sys
import time
from typing import Annotated

import httpx
import typer


def main(
    url: Annotated[str, typer.Option(help="address of the engine")] = "http://127.0.0.1:8100",
    in_flight: Annotated[str, typer.Option(help="numbers of requests in flight, with commas")] = "1,8,32",
    prompt_tokens: Annotated[int, typer.Option(help="tokens of each prompt")] = 400,
    max_tokens: Annotated[int, typer.Option(help="tokens that each request samples")] = 64,
    rounds: Annotated[int, typer.Option(help="requests, one after the other, of each in flight")] = 3,
) -> None:
    """Prints a line for each number of requests in flight."""
    for number in (int(part) for part in in_flight.split(",")):
        seconds = asyncio.run(_load(url, number, prompt_tokens, max_tokens, rounds))
        sampled, read = number * rounds * max_tokens, number * rounds * prompt_tokens
        sys.stdout.write(
            f"{number:4d} in flight: {sampled / seconds:7.0f} sampled tokens/s, {read / seconds:7.0f} prompt tokens/s, "
            f"{1000 * seconds / rounds / max_tokens:6.2f} ms a sampled token of each\n"
        )


async def _load(url: str, number: int, prompt_tokens: int, max_tokens: int, rounds: int) -> float:
    body = {"max_tokens": max_tokens, "temperature": 1.0, "ignore_eos": True}
    async with httpx.AsyncClient(base_url=url, timeout=600, trust_env=False) as http:
        body["model"] = (await http.get("/v1/models")).json()["data"][0]["id"]

        async def one() -> None:
            for _ in range(rounds):
                prompt = [random.randrange(10, 700) for _ in range(prompt_tokens)]
                (await http.post("/v1/completions", json=body | {"prompt": prompt})).raise_for_status()

        began = time.perf_counter()
        await asyncio.gather(*(one() for _ in range(number)))
        return time.perf_counter() - began


if __name__ == "__main__":
    typer.run(main)
