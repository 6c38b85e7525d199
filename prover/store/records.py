"""What audits have said of each judge: a window of verified deltas, in Redis.

    prover:records                     set: which records there are
    prover:record:[JUDGE,PROMPT,...]   sorted by time: one entry for each audited analysis, written once

A record belongs to a judge with one prompt, in one environment, on one policy engine. The window is what keeps it up to
date while the policy moves on: old audits leave it.
"""

import json
import time
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis

WINDOW = 64
"""Audits that count."""

_KEPT = 16 * WINDOW
"""Audits that can be looked at."""

_INDEX = "prover:records"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeKey:
    """Whose record it is. `policy` names the engine, not its version: versions of one lineage share a record."""

    judge: str
    prompt_version: str
    environment: str
    policy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """One audited proposal. `delta` is the raw difference of success rates, `at` in seconds since 1970."""

    analysis_id: str
    delta: float
    at: float


class JudgeRecords:
    """Bound to one Redis client, and so to the event loop that made it."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def add(self, key: JudgeKey, *, analysis_id: str, delta: float) -> bool:
        """Adds the audit of an analysis, the first time. False where it stood there already."""
        entry = json.dumps([analysis_id, delta])
        await self._redis.sadd(_INDEX, _encode(key))
        added = await self._redis.zadd(_name(key), {entry: time.time()}, nx=True)
        await self._redis.zremrangebyrank(_name(key), 0, -_KEPT - 1)
        return bool(added)

    async def audits(self, key: JudgeKey, *, limit: int = WINDOW) -> tuple[Audit, ...]:
        """The latest ones, oldest first."""
        found: Any = await self._redis.zrange(_name(key), -limit, -1, withscores=True)
        audits: list[Audit] = []
        for entry, at in found:
            analysis_id, delta = json.loads(entry)
            audits.append(Audit(analysis_id=analysis_id, delta=float(delta), at=at))
        return tuple(audits)

    async def keys(self, judge: str) -> tuple[JudgeKey, ...]:
        """The records that a judge has, in the order of their names."""
        members = [json.loads(member) for member in await self._redis.smembers(_INDEX)]
        return tuple(
            JudgeKey(judge=name, prompt_version=prompt, environment=environment, policy=policy)
            for name, prompt, environment, policy in sorted(members)
            if name == judge
        )


def _encode(key: JudgeKey) -> str:
    return json.dumps([key.judge, key.prompt_version, key.environment, key.policy])


def _name(key: JudgeKey) -> str:
    return f"prover:record:{_encode(key)}"
