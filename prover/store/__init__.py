"""What is kept between tasks: analyses in Redis, documents at any fsspec address."""

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff
from redis.exceptions import RedisError as StoreError

from prover.store.analyses import AnalysisStore, Event, follow
from prover.store.blobs import Blobs
from prover.store.records import Audit, JudgeKey, JudgeRecords

__all__ = [
    "AnalysisStore",
    "Audit",
    "Blobs",
    "Event",
    "JudgeKey",
    "JudgeRecords",
    "StoreError",
    "follow",
    "open_records",
    "open_store",
]


def open_store(redis_url: str, blob_url: str, *, max_connections: int = 1024, retries: int = 3) -> AnalysisStore:
    """A store for the event loop that is running now.

    Its methods raise StoreError where Redis does not answer, after `retries` more tries: with three of them it may be
    away for a second and a half. Every caller that waits for an event holds one of the `max_connections`; one more than
    those is an error, so callers bound their waiting.
    """
    return AnalysisStore(_connect(redis_url, max_connections=max_connections, retries=retries), Blobs(blob_url))


def open_records(redis_url: str, *, retries: int = 3) -> JudgeRecords:
    """The judges' records, for the event loop that is running now. Raises StoreError as a store does."""
    return JudgeRecords(_connect(redis_url, max_connections=64, retries=retries))


def _connect(redis_url: str, *, max_connections: int, retries: int) -> Redis:
    return Redis.from_url(
        redis_url,
        socket_timeout=30.0,
        socket_connect_timeout=5.0,
        health_check_interval=30,
        decode_responses=True,
        max_connections=max_connections,
        # A client made from an address has no retries of its own. All our writes may be made twice.
        retry=Retry(ExponentialBackoff(base=0.1, cap=1.0), retries),
    )
