"""A bare load generator: episodes that were recorded, sent to a policy engine again with nothing in between.

No environment, no queue, no store: each episode is a chain of requests, and a number of chains is in flight at all
times. Every request is as long as the recorded one, and its answer is forced to the recorded length. What an episode's
own earlier answers put into its prompt is what this run sampled, so that prefix caches work as they did for the
recording; the other tokens are the recorded ones.
"""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

_TIMEOUT_S = 600.0
_UNTOUCHED = {"top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTurn:
    """`sampled`: how many tokens the policy wrote; `reply`: the tokens that the environment's answer added."""

    sampled: int
    reply: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """`opening`: the first prompt's tokens."""

    opening: tuple[int, ...]
    turns: tuple[RecordedTurn, ...]

    @property
    def sampled(self) -> int:
        """Tokens that the policy wrote."""
        return sum(turn.sampled for turn in self.turns)


def recorded(turns: Sequence[Mapping[str, Any]]) -> Episode:
    """The requests of a kept continuation (its turns as JSON, at least one, with `context_token_ids`).

    ValueError where a context is not the last one, its sampled tokens and a reply.
    """
    contexts = [tuple(turn["context_token_ids"]) for turn in turns]
    sampled = [tuple(turn["token_ids"]) for turn in turns]
    found: list[RecordedTurn] = []
    for index, (context, tokens) in enumerate(zip(contexts, sampled, strict=True)):
        following = contexts[index + 1] if index + 1 < len(contexts) else (*context, *tokens)
        if following[: len(context) + len(tokens)] != (*context, *tokens):
            raise ValueError(f"turn {index + 1}: context_token_ids: expected to begin with those of turn {index}")
        found.append(RecordedTurn(sampled=len(tokens), reply=following[len(context) + len(tokens) :]))
    return Episode(opening=contexts[0], turns=tuple(found))


async def replay(url: str, model: str, episodes: Sequence[Episode], *, at_once: int) -> float:
    """Seconds to play all of them, `at_once` in flight. RuntimeError where an answer has another length."""
    waiting = iter(episodes)
    limits = httpx.Limits(max_connections=at_once, max_keepalive_connections=at_once)
    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=_TIMEOUT_S, trust_env=False) as http:
        began = time.perf_counter()
        await asyncio.gather(*(_chain(http, model, waiting) for _ in range(at_once)))
        return time.perf_counter() - began


async def _chain(http: httpx.AsyncClient, model: str, waiting: Iterator[Episode]) -> None:
    for episode in waiting:
        context = list(episode.opening)
        for turn in episode.turns:
            body = {
                "model": model,
                "prompt": context,
                "max_tokens": turn.sampled,
                "ignore_eos": True,
                "temperature": 1.0,
                "top_p": 1.0,
                **_UNTOUCHED,
                "logprobs": 1,
                "return_token_ids": True,
            }
            answer = await http.post("/v1/completions", json=body)
            answer.raise_for_status()
            tokens = answer.json()["choices"][0]["token_ids"]
            if len(tokens) != turn.sampled:
                raise RuntimeError(f"{answer.request.url}: answered {len(tokens)} tokens; expected {turn.sampled}")
            context += [*tokens, *turn.reply]
