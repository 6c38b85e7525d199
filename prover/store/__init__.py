"""What is kept between tasks: analyses in Redis, documents at any fsspec address."""

from redis.asyncio import Redis

from prover.store.analyses import AnalysisStore, Event, follow
from prover.store.blobs import Blobs

__all__ = ["AnalysisStore", "Blobs", "Event", "follow", "open_store"]


def open_store(redis_url: str, blob_url: str) -> AnalysisStore:
    """A store for the event loop that is running now."""
    redis = Redis.from_url(
        redis_url, socket_timeout=30.0, socket_connect_timeout=5.0, health_check_interval=30, decode_responses=True
    )
    return AnalysisStore(redis, Blobs(blob_url))
