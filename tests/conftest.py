"""Real parts that several suites share. A test gets a Redis of its own making, emptied before it starts."""

import subprocess
import tempfile
import time
from collections.abc import Iterator

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from prover.local import stack

_START_LIMIT_S = 20.0


def start_redis(port: int, folder: str) -> subprocess.Popen[bytes]:
    """A redis-server that keeps everything (append-only file) in `folder`; returns once it answers."""
    command = [
        stack.redis_server(),
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--dir",
        folder,
        "--appendonly",
        "yes",
        "--save",
        "",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
    deadline = time.monotonic() + _START_LIMIT_S
    client = Redis(port=port)
    while True:
        try:
            client.ping()
            return process
        except RedisConnectionError as error:
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                raise RuntimeError(f"redis-server on port {port}: does not answer; tried {command}") from error
            time.sleep(0.02)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[str]:
    """The address of a redis-server that lives as long as the test session."""
    with tempfile.TemporaryDirectory(prefix="prover-redis-") as folder:
        port = stack.free_port()
        process = start_redis(port, folder)
        try:
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.kill()
            process.wait()


@pytest.fixture
def redis_url(redis_server: str) -> str:
    """The address of a real Redis with nothing in it."""
    with Redis.from_url(redis_server) as client:
        client.flushall()
    return redis_server
