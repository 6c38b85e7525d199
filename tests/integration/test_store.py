"""The store, against a real Redis."""

from pathlib import Path

from redis import Redis


def test_a_test_gets_an_empty_redis_that_keeps_what_is_written(redis_url: str, tmp_path: Path) -> None:
    with Redis.from_url(redis_url) as client:
        assert client.dbsize() == 0
        assert client.config_get("appendonly") == {"appendonly": "yes"}
        client.set("left", "over")


def test_what_the_test_before_wrote_is_gone(redis_url: str) -> None:
    with Redis.from_url(redis_url) as client:
        assert client.get("left") is None
