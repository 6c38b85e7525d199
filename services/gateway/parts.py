"""What a gateway is made of."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from services.gateway.gateway import Gateway
from services.gateway.judge_records import RecordShelf
from services.gateway.live import OpenRequests
from services.gateway.metrics import Metrics
from services.gateway.pull import Pull
from services.gateway.sweep import Sweep


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The logic and what surrounds it. `ready` gives each dependency with None, or with what is wrong with it."""

    gateway: Gateway
    pull: Pull
    sweep: Sweep
    records: RecordShelf
    open_requests: OpenRequests
    metrics: Metrics
    ready: Callable[[], Awaitable[Mapping[str, str | None]]]
    max_body_bytes: int
