"""The folder that training and a vLLM start from, made of a model elsewhere."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from tiny_policy import write_tiny_weights

from services.learner.model import load_model
from services.learner.prepare_weights import prepare_weights
from services.learner.serial import tokenize_probe
from services.learner.weights import read_manifest

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def downloaded(tmp_path: Path) -> Path:
    """A model as Hugging Face's tools leave it: no prover.json."""
    folder = write_tiny_weights(tmp_path / "Tiny-1M")
    (folder / "prover.json").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"the same weights again")
    return folder


def test_a_model_becomes_a_folder_that_training_starts_from(downloaded: Path, tmp_path: Path) -> None:
    base = tmp_path / "volume" / "base"
    assert prepare_weights(str(downloaded), base)
    assert read_manifest(base) == {"version": "Tiny-1M-v0", "model": "Tiny-1M", "revision": ""}
    assert load_model(base) is not None and tokenize_probe(base)
    assert not (base / "pytorch_model.bin").exists()


def test_another_user_can_read_it(downloaded: Path, tmp_path: Path) -> None:
    """The engine is not the learner's user, and safetensors writes files for its own user alone."""
    assert (downloaded / "model.safetensors").stat().st_mode & 0o077 == 0
    prepare_weights(str(downloaded), tmp_path / "base")
    assert all(path.stat().st_mode & 0o004 for path in (tmp_path / "base").iterdir())


def test_a_second_start_changes_nothing(downloaded: Path, tmp_path: Path) -> None:
    prepare_weights(str(downloaded), tmp_path / "base")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "base").iterdir()}
    assert not prepare_weights(str(downloaded), tmp_path / "base")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "base").iterdir()} == before


def test_one_model_is_not_put_in_another_s_place(downloaded: Path, tmp_path: Path) -> None:
    prepare_weights(str(downloaded), tmp_path / "base")
    other = write_tiny_weights(tmp_path / "Other", seed=1)
    with pytest.raises(ValueError, match=r"holds .*Tiny-1M.*expected .*Other-v0"):
        prepare_weights(str(other), tmp_path / "base")


@pytest.mark.parametrize("lacking", ["model.safetensors", "tokenizer.json", "config.json"])
def test_a_model_that_lacks_something_is_never_called_whole(downloaded: Path, tmp_path: Path, lacking: str) -> None:
    (downloaded / lacking).unlink()
    with pytest.raises(ValueError, match="safetensors" if lacking.startswith("model") else lacking):
        prepare_weights(str(downloaded), tmp_path / "base")
    assert not (tmp_path / "base" / "prover.json").exists()


def test_a_download_ends_in_the_same_folder(downloaded: Path, tmp_path: Path) -> None:
    """Over the protocol that huggingface_hub speaks, answered by a server of this test's own."""
    with _hub("Owner/Tiny-1M", downloaded) as (endpoint, asked):
        done = _command("Owner/Tiny-1M", tmp_path / "base", endpoint, tmp_path / "cache")
    assert done.returncode == 0, done.stderr
    assert read_manifest(tmp_path / "base") == {"version": "Tiny-1M-v0", "model": "Owner/Tiny-1M", "revision": "main"}
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        assert (tmp_path / "base" / name).read_bytes() == (downloaded / name).read_bytes()
    assert not any("pytorch_model.bin" in path for path in asked if "/resolve/" in path)


def _command(model: str, folder: Path, endpoint: str, cache: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "services.learner.prepare_weights", model, str(folder)],
        env={**os.environ, "HF_ENDPOINT": endpoint, "HF_HOME": str(cache), "HF_HUB_DISABLE_XET": "1"},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


@contextmanager
def _hub(name: str, folder: Path) -> Generator[tuple[str, list[str]]]:
    """Serves a folder as a repository; also answers every path that was asked for."""
    asked: list[str] = []

    class Hub(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            path = self.path.partition("?")[0]
            if path.startswith(f"/api/models/{name}/revision/"):
                siblings = [{"rfilename": file.name} for file in folder.iterdir()]
                self._answer(json.dumps({"id": name, "sha": COMMIT, "siblings": siblings}).encode())
            elif path.startswith(f"/api/models/{name}/tree/"):
                self._answer(json.dumps([_entry(file) for file in folder.iterdir()]).encode())
            elif path.startswith(f"/{name}/resolve/") and (folder / path.rpartition("/")[2]).is_file():
                self._answer((folder / path.rpartition("/")[2]).read_bytes())
            else:
                self.send_error(404)

        do_HEAD = do_GET

        def _answer(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()}"')
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


def _entry(file: Path) -> dict[str, object]:
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return {"type": "file", "path": file.name, "size": file.stat().st_size, "oid": digest}
