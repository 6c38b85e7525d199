"""What the tests against a real vLLM share: docs/vllm.md says how to serve one.

PROVER_TEST_VLLM is the server's address. PROVER_TEST_VLLM_WEIGHTS, for what changes weights, is the folder that it was
started with; the server must be able to read this machine's temporary folder. PROVER_TEST_VLLM_COMMAND, for what needs
an engine of its own, is the `vllm` to start it with.
"""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Generator, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path

import httpx
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from prover.local.stack import free_port
from prover.policies import PolicyClient, Sampling
from prover.policies.publish import Probe

ADDRESS = os.environ.get("PROVER_TEST_VLLM", "")
WEIGHTS = os.environ.get("PROVER_TEST_VLLM_WEIGHTS", "")
COMMAND = os.environ.get("PROVER_TEST_VLLM_COMMAND", "")

PROMPT = "<|im_start|>user\nName the capital of France.<|im_end|>\n<|im_start|>assistant\n"
OPTIONS = (
    "--dtype bfloat16 --max-model-len 4096 --enforce-eager --served-model-name policy --gpu-memory-utilization 0.3"
)
"""A share of the memory (the main one, on a CPU) that leaves room for others beside it."""
BF16_NATS = 0.5
"""How far vLLM in bfloat16 may be from a trainer in float32: 0.34 was measured, and 3.4 to 4.2 with a stale head."""

_UP_S = 900.0

needs_server = [
    pytest.mark.vllm,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not ADDRESS, reason="PROVER_TEST_VLLM: expected the address of a vLLM server; see docs/vllm.md"),
]
needs_weights = pytest.mark.skipif(
    not WEIGHTS, reason="PROVER_TEST_VLLM_WEIGHTS: expected the folder of the weights that the server was started with"
)
needs_command = pytest.mark.skipif(
    not (COMMAND and WEIGHTS), reason="PROVER_TEST_VLLM_COMMAND, _WEIGHTS: expected a `vllm` to start, and weights"
)


def asking(url: str = ADDRESS, *, model: str | None = None) -> aclosing[PolicyClient]:
    """A client with the patience that a vLLM on the CPU needs."""
    return aclosing(PolicyClient(url, model=model, timeout_s=300.0))


async def greedy(client: PolicyClient, prompt: Sequence[int], *, max_tokens: int = 32) -> tuple[int, ...]:
    """What the policy writes where it always takes the likeliest token."""
    return (await client.complete(prompt, Sampling(temperature=0.0, max_tokens=max_tokens))).token_ids


def perturbed(folder: Path, *, version: str, seed: int = 0) -> Path:
    """The served weights with noise of a quarter of each matrix's spread: near enough to talk, and never the same.

    Embeddings stay: where the head is tied to them, vLLM 0.32 on the CPU does not reload the head (docs/vllm.md).
    """
    shutil.copytree(WEIGHTS, folder)
    torch.manual_seed(seed)
    weights = {
        name: (tensor + 0.25 * tensor.float().std() * torch.randn(tensor.shape)).to(tensor.dtype)
        if tensor.ndim == 2 and ".layers." in name
        else tensor
        for name, tensor in load_file(folder / "model.safetensors").items()
    }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return named(folder, version)


def named(folder: Path, version: str) -> Path:
    """The folder, with a manifest that names its version."""
    (folder / "prover.json").write_text(json.dumps({"version": version}))
    return folder


def probe_of(folder: Path, prompt: tuple[int, ...], *, tolerance: float) -> Probe:
    """The log-probabilities that a trainer with the weights of a folder computes."""
    model = AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32)

    async def score(context: Sequence[int], sampled: Sequence[int]) -> list[float]:
        with torch.no_grad():
            distribution = model(torch.tensor([[*context, *sampled]])).logits[0].log_softmax(-1)
        return [distribution[len(context) + place - 1, token].item() for place, token in enumerate(sampled)]

    return Probe(context_token_ids=prompt, score=score, tolerance=tolerance)


@contextmanager
def vllm_serving(folder: Path, log: Path, *options: str) -> Generator[str]:
    """The address of a vLLM of its own on the weights of a folder: up in one to many minutes, stopped at the end."""
    port = free_port()
    arguments = [COMMAND, "serve", str(folder), *OPTIONS.split(), "--host", "127.0.0.1", "--port", str(port), *options]
    with log.open("wb") as output:
        process = subprocess.Popen(
            arguments, stdout=output, stderr=output, env={**os.environ, "VLLM_SERVER_DEV_MODE": "1"}
        )
    try:
        _wait_up(process, f"http://127.0.0.1:{port}", log)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def _wait_up(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + _UP_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            if httpx.get(f"{url}/health").is_success:
                return
        except httpx.TransportError:
            pass  # not listening yet
        time.sleep(1.0)
    raise RuntimeError(f"vLLM did not come up: {log.read_text(errors='replace')[-4000:]}")
