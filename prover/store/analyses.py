"""Analyses in Redis: their state, their outcomes, their events.

Keys of one analysis share a hash slot, so that a cluster can hold them:
    prover:{ID}:analysis   hash: status, options, judgement, round, verification, ...
    prover:{ID}:outcomes   hash: "before:3" -> an outcome, written once
    prover:{ID}:events     stream: every transition and outcome
and for all: prover:analyses (sorted by creation), prover:active (sorted by last progress), prover:idempotency:KEY.

Every write is one command, transaction or script, and may be made twice. A write to an analysis that has ended or is
gone changes nothing and says so.
"""

import json
import time
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

from redis.asyncio import Redis

from prover.analysis import Analysis, Options, Round
from prover.lifecycle import END_STATES, MOVES, Status
from prover.protocol import needed_for
from prover.store import encoding, scripts
from prover.store.blobs import Blobs
from prover.store.encoding import Event
from prover.trajectory import BoundaryCount, Group, Outcome, Trajectory, TrajectoryCredit

_INDEX = "prover:analyses"
_ACTIVE = "prover:active"


class AnalysisStore:
    """Bound to one Redis client, and so to the event loop that made it."""

    def __init__(self, redis: Redis, blobs: Blobs) -> None:
        self._redis = redis
        self._blobs = blobs

    async def create(self, analysis_id: str, group: Group, options: Options) -> Analysis:
        """Stores a new analysis as queued; one that is there already stays as it is and is answered.

        The group's document is written first: a record never lacks it.
        """
        await self._blobs.write(f"{analysis_id}/group.json", encoding.GROUP.dump_json(group))
        now = time.time()
        analysis = Analysis(
            id=analysis_id,
            status=Status.QUEUED,
            options=options,
            policy_version=group.policy_version,
            created_at=now,
            updated_at=now,
            protocol=needed_for(options),
        )
        fields: dict[str, str | float] = {
            "status": analysis.status.value,
            "options": encoding.encode("options", options),
            "policy_version": group.policy_version,
            "created_at": now,
            "updated_at": now,
            "attempts": 0,
            "protocol": analysis.protocol,
        }
        arguments: list[str | float] = [now, analysis_id, json.dumps({"status": "queued"})]
        for name, value in fields.items():
            arguments += [name, value]
        keys = [_key(analysis_id), _INDEX, _ACTIVE, _events(analysis_id)]
        if await self._redis.eval(scripts.CREATE, len(keys), *keys, *arguments):
            return analysis
        return await self.get(analysis_id) or analysis

    async def get(self, analysis_id: str) -> Analysis | None:
        """The analysis as it stands, or None."""
        raw: dict[Any, Any] = await self._redis.hgetall(_key(analysis_id))
        return encoding.analysis(analysis_id, raw) if raw else None

    async def group(self, analysis_id: str) -> Group:
        """The group that was handed in. Raises KeyError where there is none."""
        return encoding.GROUP.validate_json(await self._document(analysis_id, "group"))

    async def credit(self, analysis_id: str) -> tuple[TrajectoryCredit, ...]:
        """The advantages, once the analysis has ended with some. Raises KeyError before."""
        return encoding.CREDIT.validate_json(await self._document(analysis_id, "credit"))

    async def write_credit(self, analysis_id: str, credit: tuple[TrajectoryCredit, ...]) -> None:
        """Stores the advantages. Comes before the move to an end state, so that who sees the state finds them."""
        await self._blobs.write(f"{analysis_id}/credit.json", encoding.CREDIT.dump_json(credit))

    async def move(self, analysis_id: str, status: Status, **fields: object) -> bool:
        """Moves on to `status` and sets `fields` with it (judgement, round, verification, error, note).

        False, and nothing changes, where the present status may not be followed by it: someone else was first, or the
        analysis was cancelled or deleted.
        """
        following = [state.value for state, after in MOVES.items() if status in after]
        arguments: list[str | float] = [
            time.time(),
            analysis_id,
            status.value,
            int(status in END_STATES),
            json.dumps({"status": status.value, **encoding.plain(fields)}),
            " ".join(following),
        ]
        for name, value in fields.items():
            if value is not None:
                arguments += [name, encoding.encode(name, value)]
        keys = [_key(analysis_id), _events(analysis_id), _ACTIVE]
        return bool(await self._redis.eval(scripts.MOVE, len(keys), *keys, *arguments))

    async def advance_round(self, analysis_id: str, *, current: Round | None, following: Round) -> bool:
        """Sets the next round if `current` is the present one. False where someone else was first."""
        encoded = "" if current is None else encoding.encode("round", current)
        arguments = [time.time(), encoded, encoding.encode("round", following), analysis_id]
        keys = [_key(analysis_id), _ACTIVE]
        return bool(await self._redis.eval(scripts.ADVANCE, len(keys), *keys, *arguments))

    async def record_outcome(self, analysis_id: str, *, side: str, sample: int, outcome: Outcome) -> bool:
        """Writes one continuation's outcome if it is the first for that sample. False where it changed nothing."""
        event = json.dumps({"side": side, "sample": sample, "success": outcome.success, "tokens": outcome.tokens})
        keys = [_key(analysis_id), _outcomes(analysis_id), _events(analysis_id), _ACTIVE]
        encoded = encoding.OUTCOME.dump_json(outcome).decode()
        return bool(
            await self._redis.eval(
                scripts.RECORD, len(keys), *keys, time.time(), analysis_id, f"{side}:{sample}", encoded, event
            )
        )

    async def outcomes(self, analysis_id: str, side: str) -> dict[int, Outcome]:
        """Outcomes of one boundary ("before" or "after") by sample number."""
        raw: dict[Any, Any] = await self._redis.hgetall(_outcomes(analysis_id))
        found: dict[int, Outcome] = {}
        for key, value in raw.items():
            where, _, sample = str(key).partition(":")
            if where == side:
                found[int(sample)] = encoding.OUTCOME.validate_json(value)
        return found

    async def keep_continuation(self, analysis_id: str, trajectory: Trajectory) -> str:
        """Stores a continuation's trajectory and answers its name. It counts once an outcome carries that name."""
        name = f"continuation-{uuid4().hex}"
        await self._blobs.write(f"{analysis_id}/{name}.json", encoding.TRAJECTORY.dump_json(trajectory))
        return name

    async def drop_continuation(self, analysis_id: str, name: str) -> None:
        """Removes one whose outcome was not the first."""
        await self._blobs.delete_all(f"{analysis_id}/{name}.json")

    async def continuations(self, analysis_id: str, side: str) -> dict[int, Trajectory]:
        """Trajectories that were kept of one boundary, by sample number: those of the outcomes that count."""
        return {
            sample: encoding.TRAJECTORY.validate_json(await self._document(analysis_id, outcome.kept_as))
            for sample, outcome in sorted((await self.outcomes(analysis_id, side)).items())
            if outcome.kept_as is not None
        }

    async def count(self, analysis_id: str, side: str) -> BoundaryCount:
        """Outcomes of one boundary, added up."""
        outcomes = (await self.outcomes(analysis_id, side)).values()
        return BoundaryCount(
            successes=sum(outcome.success for outcome in outcomes),
            samples=len(outcomes),
            tokens=sum(outcome.tokens for outcome in outcomes),
            policy_versions=tuple(sorted({outcome.policy_version for outcome in outcomes if outcome.policy_version})),
        )

    async def events(self, analysis_id: str, *, after: str = "0", wait_s: float = 0.0) -> list[Event]:
        """Events later than the id `after`; waits up to `wait_s` for the first one."""
        block = max(1, int(wait_s * 1000)) if wait_s > 0 else None
        answer: Any = await self._redis.xread({_events(analysis_id): after}, block=block, count=1000)
        return [encoding.event(entry) for _, entries in answer or [] for entry in entries]

    async def wait(self, analysis_id: str, *, timeout_s: float) -> Analysis | None:
        """The analysis once it has ended, or as it stands after `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        last = "0"
        while True:
            analysis = await self.get(analysis_id)
            left = deadline - time.monotonic()
            if analysis is None or analysis.status in END_STATES or left <= 0:
                return analysis
            events = await self.events(analysis_id, after=last, wait_s=min(left, 5.0))
            last = events[-1].id if events else last

    async def recent(self, *, limit: int = 50, before: float | None = None) -> list[Analysis]:
        """Newest first; `before` pages on from the `created_at` of the last one seen."""
        newest = "+inf" if before is None else f"({before!r}"
        ids = await self._redis.zrevrangebyscore(_INDEX, newest, "-inf", start=0, num=limit)
        async with self._redis.pipeline(transaction=False) as pipeline:
            for analysis_id in ids:
                pipeline.hgetall(_key(str(analysis_id)))
            records = await pipeline.execute()
        # A record may be gone since: deleting is not one step.
        return [encoding.analysis(str(found), record) for found, record in zip(ids, records, strict=True) if record]

    async def delete(self, analysis_id: str) -> bool:
        """Removes every trace. Tasks under way notice at their next write. False where there was nothing."""
        removed = await self._redis.delete(_key(analysis_id), _outcomes(analysis_id), _events(analysis_id))
        await self._redis.zrem(_INDEX, analysis_id)
        await self._redis.zrem(_ACTIVE, analysis_id)
        await self._blobs.delete_all(analysis_id)
        return bool(removed)

    async def claim_key(self, key: str, *, analysis_id: str, body_digest: str, ttl_s: int) -> tuple[str, str]:
        """Idempotency: the (analysis id, body digest) that `key` stands for; these where it is new."""
        name = f"prover:idempotency:{key}"
        value = f"{analysis_id} {body_digest}"
        if await self._redis.set(name, value, nx=True, ex=ttl_s):
            return analysis_id, body_digest
        owner, _, digest = str(await self._redis.get(name) or value).partition(" ")
        return owner, digest

    async def find_key(self, key: str) -> tuple[str, str] | None:
        """Idempotency: the (analysis id, body digest) that `key` stands for, or None."""
        claimed = await self._redis.get(f"prover:idempotency:{key}")
        if claimed is None:
            return None
        owner, _, digest = str(claimed).partition(" ")
        return owner, digest

    async def stalled(self, *, idle_s: float, limit: int = 100) -> list[str]:
        """Analyses under way that nothing has happened to for `idle_s`."""
        ids = await self._redis.zrangebyscore(_ACTIVE, "-inf", time.time() - idle_s, start=0, num=limit)
        return [str(analysis_id) for analysis_id in ids]

    async def note_attempt(self, analysis_id: str, *, patience_s: float = 0.0) -> int:
        """Counts one attempt to get a stalled analysis going; progress sets the count back to 0.

        It counts as stalled again `patience_s` later than it otherwise would.
        """
        if not await self._redis.exists(_key(analysis_id)):
            await self._redis.zrem(_ACTIVE, analysis_id)
            return 0
        await self._redis.zadd(_ACTIVE, {analysis_id: time.time() + patience_s}, xx=True)
        return int(await self._redis.hincrby(_key(analysis_id), "attempts", 1))

    async def keep_alive(self, analysis_id: str, *, patience_s: float = 0.0) -> bool:
        """Says that somebody is at work on it, though nothing is to be seen yet. False where it is not under way.

        It counts as stalled `patience_s` later than it otherwise would.
        """
        keys, until = [_key(analysis_id), _ACTIVE], time.time() + patience_s
        return bool(await self._redis.eval(scripts.KEEP_ALIVE, len(keys), *keys, until, analysis_id))

    async def hold_lock(self, name: str, *, owner: str, ttl_s: float) -> bool:
        """Takes the lock or holds on to it for `ttl_s` more. False where another owner has it."""
        key = f"prover:lock:{name}"
        return bool(await self._redis.eval(scripts.HOLD, 1, key, owner, int(ttl_s * 1000)))

    async def waiting_messages(self, queue: str) -> int:
        """How many messages of a Celery queue on this Redis no worker has taken yet."""
        return int(await self._redis.llen(queue))

    async def active(self) -> int:
        """How many analyses are under way."""
        return int(await self._redis.zcard(_ACTIVE))

    async def ping(self) -> None:
        """Raises where Redis does not answer."""
        await self._redis.ping()

    async def aclose(self) -> None:
        """Lets the connections go."""
        await self._redis.aclose()

    async def _document(self, analysis_id: str, name: str) -> bytes:
        content = await self._blobs.read(f"{analysis_id}/{name}.json")
        if content is None:
            raise KeyError(f"analysis {analysis_id!r} has no {name}")
        return content


async def follow(store: AnalysisStore, analysis_id: str, *, after: str = "0") -> AsyncIterator[Event]:
    """Events as they happen, until the analysis has ended."""
    last = after
    while True:
        analysis = await store.get(analysis_id)
        ended = analysis is None or analysis.status in END_STATES
        # An end state comes together with its event, so that a look after it was seen finds everything.
        events = await store.events(analysis_id, after=last, wait_s=0.0 if ended else 5.0)
        for event in events:
            last = event.id
            yield event
        if ended and not events:
            return


def _key(analysis_id: str) -> str:
    return f"prover:{{{analysis_id}}}:analysis"


def _outcomes(analysis_id: str) -> str:
    return f"prover:{{{analysis_id}}}:outcomes"


def _events(analysis_id: str) -> str:
    return f"prover:{{{analysis_id}}}:events"
