"""Servers that behave as vLLM 0.32 does where a publisher talks to it, with a real model behind them.

Statuses, messages and the order of lists are those of vllm/entrypoints/openai/models/serving.py and
vllm/entrypoints/rl/online/api_router.py. Routes are the methods of the same name.
"""

import asyncio
import queue
from pathlib import Path
from typing import Any

import torch
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from peft import PeftModel
from transformers import AutoModelForCausalLM

BASE = "tiny"


def load(weights: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(str(weights), dtype=torch.float32)


def sample(model: Any, prompt: list[int], count: int, seed: int) -> dict[str, Any]:
    """A choice of a completion, with the model's own log-probabilities."""
    draw, ids, logprobs = torch.Generator().manual_seed(seed), list(prompt), list[float]()
    with torch.no_grad():
        for _ in range(count):
            distribution = model(torch.tensor([ids])).logits[0, -1].log_softmax(-1)
            token = int(torch.multinomial(distribution.exp(), 1, generator=draw))
            ids.append(token)
            logprobs.append(distribution[token].item())
    tokens = {"token_ids": ids[len(prompt) :], "logprobs": {"token_logprobs": logprobs}}
    return {"text": "", "finish_reason": "length", **tokens}


def refusal(status: int, message: str) -> JSONResponse:
    """As vLLM's create_error_response."""
    error = {"message": message, "type": "Error", "param": None, "code": status}
    return JSONResponse({"error": error}, status_code=status)


class AdapterVllm:
    """vLLM with `--enable-lora` and VLLM_ALLOW_RUNTIME_LORA_UPDATING.

    Attributes:
        adapters: by name: the folder, and the model with the adapter; the one loaded last is the last.
        stale: adapters that are answered for with the model's own weights, as by an engine that did not load them.
        losing: so many answers of /v1/load_lora_adapter are lost.
    """

    def __init__(self, weights: Path) -> None:
        self.weights = weights
        self.base = load(weights)
        self.adapters: dict[str, tuple[str, Any]] = {}
        self.calls: list[str] = []
        self.stale: set[str] = set()
        self.losing = 0

    def app(self) -> FastAPI:
        app = FastAPI()
        app.get("/v1/models")(self.models)
        app.post("/v1/load_lora_adapter")(self.load_lora_adapter)
        app.post("/v1/unload_lora_adapter")(self.unload_lora_adapter)
        app.post("/v1/completions")(self.completions)
        app.post("/tokenize")(self.tokenize)
        return app

    async def models(self) -> dict[str, Any]:
        own = {"id": BASE, "root": str(self.weights), "parent": None, "max_model_len": 512}
        loaded = [
            {"id": name, "root": path, "parent": BASE, "max_model_len": None}
            for name, (path, _) in self.adapters.items()
        ]
        return {"data": [own, *loaded]}

    async def load_lora_adapter(self, request: Request) -> Response:
        body = await request.json()
        name, path = body["lora_name"], body["lora_path"]
        self.calls.append(f"load {name}")
        if name == BASE:
            return refusal(400, f"The lora adapter '{name}' conflicts with a served base model.")
        if name in self.adapters and not body.get("load_inplace"):
            return refusal(400, f"The lora adapter '{name}' has already been loaded.")
        if not (Path(path) / "adapter_config.json").is_file():
            return refusal(404, f"Loading lora {name} failed: No adapter found for {path}")
        self.adapters[name] = (path, PeftModel.from_pretrained(load(self.weights), path))
        if self.losing:
            self.losing -= 1
            return Response(status_code=502)
        return Response(f"Success: LoRA adapter '{name}' added successfully.")

    async def unload_lora_adapter(self, request: Request) -> Response:
        name = (await request.json())["lora_name"]
        self.calls.append(f"unload {name}")
        if name not in self.adapters:
            return refusal(404, f"The lora adapter '{name}' cannot be found.")
        del self.adapters[name]
        return Response(f"Success: LoRA adapter '{name}' removed successfully.")

    async def completions(self, request: Request) -> Response:
        body = await request.json()
        name = body["model"]
        if name != BASE and name not in self.adapters:
            return refusal(404, f"The model `{name}` does not exist.")
        model = self.base if name == BASE or name in self.stale else self.adapters[name][1]
        choice = sample(model, body["prompt"], body["max_tokens"], body.get("seed") or 0)
        return JSONResponse({"model": name, "choices": [choice]})

    async def tokenize(self, request: Request) -> dict[str, Any]:
        return {"count": 1, "max_model_len": 512, "tokens": [1], "token_strs": None}


class TransferVllm:
    """vLLM with `--weight-transfer-config '{"backend": "nccl"}'` in its development mode, of `workers` processes.

    Attributes:
        wire: stands in for NCCL: what rank 0 broadcasts.
        deaf: takes what is sent and keeps the old weights.
        failing: /update_weights fails before it takes anything.
    """

    def __init__(self, weights: Path, *, workers: int = 2) -> None:
        self.workers = workers
        self.wire: queue.Queue[Any] = queue.Queue()
        self.calls: list[str] = []
        self.deaf = self.failing = False
        self.restart(weights)

    def restart(self, weights: Path) -> None:
        """As a process that was started with these weights."""
        self.model = load(weights)
        self.version = "default"
        self.group: bytes | None = None
        self.updating = self.paused = False

    def app(self) -> FastAPI:
        app = FastAPI()
        app.get("/v1/models")(self.models)
        app.get("/get_world_size")(self.get_world_size)
        app.get("/weight_info")(self.weight_info)
        app.post("/v1/completions")(self.completions)
        app.post("/reset_prefix_cache")(self.reset_prefix_cache)
        for change in (
            self.init_weight_transfer_engine,
            self.pause,
            self.start_weight_update,
            self.update_weights,
            self.finish_weight_update,
            self.resume,
        ):
            app.post(f"/{change.__name__}", response_model=None)(change)
        return app

    async def models(self) -> dict[str, Any]:
        return {"data": [{"id": BASE, "root": "/models/tiny", "parent": None, "max_model_len": 512}]}

    async def get_world_size(self) -> dict[str, int]:
        return {"world_size": self.workers}

    async def weight_info(self) -> dict[str, str]:
        return {"weight_version": self.version}

    async def init_weight_transfer_engine(self, request: Request) -> dict[str, str]:
        self.calls.append("init")
        info = (await request.json())["init_info"]
        assert set(info) == {"nccl_unique_id_b64", "rank_offset", "world_size", "packed"}
        self.group, size = await asyncio.to_thread(self.wire.get, timeout=10)
        assert info["world_size"] == size == self.workers + info["rank_offset"]
        return {"message": "Weight transfer initialized"}

    async def pause(self, mode: str = "abort") -> dict[str, str]:
        self.calls.append(f"pause {mode}")
        self.paused = True
        return {"status": "paused"}

    async def start_weight_update(self) -> dict[str, str]:
        self.calls.append("start")
        self.updating = True
        return {"message": "Weight update started"}

    async def update_weights(self, request: Request) -> Response:
        self.calls.append("update")
        info = (await request.json())["update_info"]
        if self.failing or self.group is None or not (self.updating and self.paused):
            return JSONResponse({"error": "NCCL weight transfer not initialized."}, status_code=500)
        await asyncio.to_thread(self.receive, info)
        return JSONResponse({"message": "Weights updated"})

    async def finish_weight_update(self, request: Request) -> dict[str, str]:
        self.calls.append("finish")
        self.version = (await request.json())["weight_version"]
        self.updating = False
        return {"message": "Weight update finished"}

    async def reset_prefix_cache(self) -> dict[str, bool]:
        self.calls.append("reset")
        return {"success": True}

    async def resume(self) -> dict[str, str]:
        self.calls.append("resume")
        self.paused = False
        return {"status": "resumed"}

    async def completions(self, request: Request) -> dict[str, Any]:
        body = await request.json()
        return {"model": BASE, "choices": [sample(self.model, body["prompt"], body["max_tokens"], 0)]}

    def receive(self, info: dict[str, Any]) -> None:
        """One tensor after the other, each of the kind and the shape that were listed."""
        state: dict[str, torch.Tensor] = {}
        for name, dtype, shape in zip(info["names"], info["dtype_names"], info["shapes"], strict=True):
            tensor = self.wire.get(timeout=10)
            assert tensor.dtype == getattr(torch, dtype) and list(tensor.shape) == shape, name
            state[name] = tensor
        if not self.deaf:
            missing, unexpected = self.model.load_state_dict(state, strict=False)
            assert not unexpected and set(missing) <= {"lm_head.weight"}
