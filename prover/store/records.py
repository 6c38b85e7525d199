"""What audits have said of each judge: a window of verified deltas, in Redis.

    prover:records:latest              sorted by time: which records there are, and when the last audit joined each
    prover:record:[JUDGE,PROMPT,...]   sorted by time: one entry for each audited analysis, written once
    prover:features:[JUDGE,PROMPT,...] analysis -> what its proposal is like; older releases write none

A record belongs to a judge with one prompt, in one environment, on one policy engine. The window is what keeps it up to
date while the policy moves on: old audits leave it.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from redis.asyncio import Redis

from prover.credit.features import Features
from prover.credit.record import WINDOW

_KEPT = 16 * WINDOW
"""Audits that can be looked at."""

_INDEX = "prover:records:latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeKey:
    """Whose record it is. `policy` names the engine, not its version: versions of one lineage share a record."""

    judge: str
    prompt_version: str
    environment: str
    policy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """One audited proposal. `delta` is the raw difference of success rates, `at` in seconds since 1970; `features` are
    None where an older release wrote it."""

    analysis_id: str
    delta: float
    at: float
    features: Features | None = None


class JudgeRecords:
    """Bound to one Redis client, and so to the event loop that made it."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def add(self, key: JudgeKey, *, analysis_id: str, delta: float, features: Features | None = None) -> bool:
        """Adds the audit of an analysis, the first time. False where it stood there already."""
        entry, now = json.dumps([analysis_id, delta]), time.time()
        if features is not None:
            await self._redis.hset(_features(key), analysis_id, json.dumps(asdict(features)))
        await self._redis.zadd(_INDEX, {_encode(key): now}, gt=True)
        added = await self._redis.zadd(_name(key), {entry: now}, nx=True)
        gone: list[Any] = await self._redis.zrange(_name(key), 0, -_KEPT - 1)
        if gone:
            await self._redis.zrem(_name(key), *gone)
            await self._redis.hdel(_features(key), *(json.loads(old)[0] for old in gone))
        return bool(added)

    async def audits(self, key: JudgeKey, *, limit: int = WINDOW) -> tuple[Audit, ...]:
        """The latest ones, oldest first."""
        found: Any = await self._redis.zrange(_name(key), -limit, -1, withscores=True)
        audits = [(*json.loads(entry), at) for entry, at in found]
        like = await self._like(key, [analysis_id for analysis_id, _, _ in audits])
        return tuple(
            Audit(analysis_id=analysis_id, delta=float(delta), at=at, features=features)
            for (analysis_id, delta, at), features in zip(audits, like, strict=True)
        )

    async def kept(self, key: JudgeKey) -> int:
        """How many audits are kept, those that have left the window among them."""
        return int(await self._redis.zcard(_name(key)))

    async def keys(self, judge: str) -> tuple[JudgeKey, ...]:
        """The records that a judge has, in the order of their names."""
        members: list[Any] = await self._redis.zrange(_INDEX, 0, -1)
        return tuple(key for key in map(_decode, sorted(members)) if key.judge == judge)

    async def in_use(self, *, since: float, limit: int) -> tuple[JudgeKey, ...]:
        """The records of all judges that an audit has joined since (seconds since 1970), the latest `limit` of them."""
        members: list[Any] = await self._redis.zrevrangebyscore(_INDEX, "+inf", since, start=0, num=limit)
        return tuple(map(_decode, members))

    async def _like(self, key: JudgeKey, analysis_ids: Sequence[str]) -> list[Features | None]:
        found: list[Any] = await self._redis.hmget(_features(key), analysis_ids) if analysis_ids else []
        return [None if features is None else Features(**json.loads(features)) for features in found]

    async def aclose(self) -> None:
        """Lets the connections go."""
        await self._redis.aclose()


def _encode(key: JudgeKey) -> str:
    return json.dumps([key.judge, key.prompt_version, key.environment, key.policy])


def _decode(member: str) -> JudgeKey:
    judge, prompt_version, environment, policy = json.loads(member)
    return JudgeKey(judge=judge, prompt_version=prompt_version, environment=environment, policy=policy)


def _name(key: JudgeKey) -> str:
    return f"prover:record:{_encode(key)}"


def _features(key: JudgeKey) -> str:
    return f"prover:features:{_encode(key)}"
