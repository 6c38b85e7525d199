"""`python -m services.engine` as a process: settings from the environment, real sockets, real signals."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from prover.local.stack import free_port
from tests.unit.engine.builders import write_weights

_START_LIMIT_S = 100.0


@contextmanager
def process(folder: Path, **settings: str) -> Generator[tuple[subprocess.Popen[bytes], str]]:
    """A running engine and its address."""
    port = free_port()
    environment = {f"PROVER_ENGINE_{name.upper()}": value for name, value in settings.items()}
    environment |= {"PROVER_ENGINE_PORT": str(port), "PROVER_ENGINE_WEIGHTS": str(folder), "OMP_NUM_THREADS": "1"}
    engine = subprocess.Popen([sys.executable, "-m", "services.engine"], env=os.environ | environment)
    url = f"http://127.0.0.1:{port}"
    try:
        _until_healthy(engine, url)
        yield engine, url
    finally:
        engine.kill()
        engine.wait()


def _until_healthy(engine: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + _START_LIMIT_S
    while time.monotonic() < deadline and engine.poll() is None:
        try:
            if httpx.get(f"{url}/health").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise AssertionError(f"the engine does not answer; exit status {engine.poll()}")


@pytest.fixture(scope="module")
def weights_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights, deep enough that an answer takes a while."""
    return write_weights(tmp_path_factory.mktemp("weights"), layers=4)


@pytest.fixture(scope="module")
def running(weights_folder: Path) -> Iterator[str]:
    """The address of an engine with two places in its batch and two to wait in."""
    with process(weights_folder, max_batch="2", max_waiting="2") as (_, url):
        yield url


def metric(url: str, name: str) -> float:
    """One number of /metrics."""
    lines = httpx.get(f"{url}/metrics").text.splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(f"prover_engine_{name} "))


def test_more_than_fits_is_answered_503_and_what_fits_is_answered(running: str) -> None:
    body = {"prompt": [1, 2, 3], "max_tokens": 4, "n": 5}
    refused = httpx.post(f"{running}/v1/completions", json=body)
    assert refused.status_code == 503
    assert "expected at most 4 together" in refused.json()["error"]["message"]
    assert httpx.post(f"{running}/v1/completions", json=body | {"n": 4}, timeout=30).status_code == 200


async def test_a_caller_that_hangs_up_gives_its_place_back(running: str) -> None:
    before = metric(running, 'finished_total{reason="cancelled"}')
    httpx.post(f"{running}/pause", params={"mode": "keep"})
    async with httpx.AsyncClient() as http:
        body = {"prompt": [1, 2, 3], "max_tokens": 200, "n": 4}
        with pytest.raises(httpx.ReadTimeout):
            await http.post(f"{running}/v1/completions", json=body, timeout=0.5)
    httpx.post(f"{running}/resume")
    for _ in range(200):
        if metric(running, 'finished_total{reason="cancelled"}') == before + 4:
            break
        await asyncio.sleep(0.05)
    assert metric(running, 'finished_total{reason="cancelled"}') == before + 4
    answer = httpx.post(f"{running}/v1/completions", json=body | {"max_tokens": 2}, timeout=30)
    assert answer.status_code == 200


def test_metrics_count_what_was_reused(running: str) -> None:
    prompt = [1 + index % 12 for index in range(100)]
    httpx.post(f"{running}/v1/completions", json={"prompt": prompt, "max_tokens": 1}, timeout=30)
    before = metric(running, "reused_tokens_total")
    httpx.post(f"{running}/v1/completions", json={"prompt": [*prompt, 5], "max_tokens": 1}, timeout=30)
    assert metric(running, "reused_tokens_total") == before + 100


def test_sigterm_ends_the_process_after_the_answer_under_way(weights_folder: Path) -> None:
    with process(weights_folder) as (engine, url), ThreadPoolExecutor() as threads:
        body = {"prompt": [1, 2, 3], "max_tokens": 250, "return_token_ids": True}
        asked = threads.submit(httpx.post, f"{url}/v1/completions", json=body, timeout=30)
        while metric(url, "generated_tokens_total") == 0 and not asked.done():
            time.sleep(0.005)
        engine.send_signal(signal.SIGTERM)
        assert len(asked.result().json()["choices"][0]["token_ids"]) == 250
        assert engine.wait(timeout=30) in (0, -signal.SIGTERM)


def test_a_folder_without_weights_ends_the_process_with_the_reason(tmp_path: Path) -> None:
    environment = os.environ | {"PROVER_ENGINE_WEIGHTS": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-m", "services.engine"], env=environment, capture_output=True, text=True, timeout=100
    )
    assert ended.returncode != 0
    assert "prover.json" in ended.stderr
