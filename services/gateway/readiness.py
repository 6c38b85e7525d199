"""Which dependencies answer, and the one question that the door has for the judge."""

import asyncio
import time
from collections.abc import Awaitable, Mapping
from typing import Protocol

from prover.policies import PolicyError
from prover.rpc.clients import RpcError
from prover.store import AnalysisStore, StoreError
from services.gateway.gateway import PolicySource

_LIMIT_S = 2.0
_NAMES_LAST_S = 30.0


class JudgeSource(Protocol):
    """What the gateway needs of the judge: `prover.rpc.clients.JudgeClient` is one."""

    async def judges(self, *, timeout_s: float) -> tuple[str, ...]:
        """The names that it knows. Raises RpcError."""
        ...


class Readiness:
    """Asks every dependency at once, each for at most two seconds."""

    def __init__(self, store: AnalysisStore, judge: JudgeSource, policies: Mapping[str, PolicySource]) -> None:
        self._store = store
        self._judge = judge
        self._policies = policies

    async def __call__(self) -> dict[str, str | None]:
        """Each dependency with None, or with what is wrong with it."""
        asked: dict[str, Awaitable[object]] = {"redis": self._store.ping()}
        asked["judge"] = self._judge.judges(timeout_s=_LIMIT_S)
        asked |= {f"policy {name}": source.info() for name, source in self._policies.items()}
        found = await asyncio.gather(*map(_wrong, asked.values()))
        return dict(zip(asked, found, strict=True))


class JudgeNames:
    """The names that the judge knows, asked for now and then; None where it has never answered."""

    def __init__(self, judge: JudgeSource) -> None:
        self._judge = judge
        self._names: frozenset[str] | None = None
        self._asked_at = float("-inf")

    async def __call__(self) -> frozenset[str] | None:
        """The last known names. A judge that is away does not close the door: its work comes later."""
        if time.monotonic() - self._asked_at > _NAMES_LAST_S:
            try:
                self._names = frozenset(await self._judge.judges(timeout_s=_LIMIT_S))
                self._asked_at = time.monotonic()
            except RpcError:
                # Asked again soon, but not at every request.
                self._asked_at = time.monotonic() - _NAMES_LAST_S + _LIMIT_S
        return self._names


async def _wrong(answer: Awaitable[object]) -> str | None:
    try:
        await asyncio.wait_for(answer, 2 * _LIMIT_S)
    except TimeoutError:
        return f"no answer in {2 * _LIMIT_S:.0f} s"
    except (StoreError, PolicyError, RpcError) as error:
        return str(error)
    return None
