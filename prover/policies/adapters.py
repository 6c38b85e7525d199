"""Low-rank adapters into a running vLLM, each under the name of its version.

POST /v1/load_lora_adapter and /v1/unload_lora_adapter, which a vLLM offers that was started with `--enable-lora` and
VLLM_ALLOW_RUNTIME_LORA_UPDATING=True. Nothing is paused and nothing is overwritten: turns in flight end under the
adapter that they began with, and a request asks for its version by name. The adapter that was loaded last is the one
that new turns ask for (`PolicyClient` does), so that going back is unloading.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

from prover.policies.publish import Published, PublishFailed, read_version
from prover.policies.serving import CallFailed, Card, Probe, Serving, connect

_log = logging.getLogger(__name__)
_GONE = (404,)
_HOW = (
    "Adapters need `vllm serve --enable-lora --max-lora-rank RANK` with VLLM_ALLOW_RUNTIME_LORA_UPDATING=True, and a "
    "folder that the engine can read"
)


class Adapters:
    """Adapter folders (peft's format) that the engine reads. Keeps at most `kept` of them loaded, the newest."""

    def __init__(self, base_url: str, *, timeout_s: float = 600.0, api_key: str = "", kept: int = 4) -> None:
        """`base_url` without "/v1". `kept`: those before the newest serve what was sampled from them and is verified
        now. ValueError where it is below 2: the version before must be there to go back to."""
        if kept < 2:
            raise ValueError(f"kept: was {kept}; expected 2 or more")
        self._base_url = base_url.rstrip("/")
        self._timeout_s = timeout_s
        self._api_key = api_key
        self._kept = kept

    async def publish(
        self, weights_path: str, *, probe: Probe | None = None, previous_path: str | None = None
    ) -> Published:
        """Answers when the adapter serves under its version's name and is proven. Raises PublishFailed: then it is
        unloaded, and what was loaded before serves on. `previous_path` is not needed for that."""
        version = read_version(weights_path)
        async with connect(self._base_url, timeout_s=self._timeout_s, api_key=self._api_key) as engine:
            try:
                await self._load(engine, weights_path, version)
                difference = 0.0 if probe is None else await engine.prove(version, probe)
            except CallFailed as failed:
                state = await self._take_back(engine, version)
                raise PublishFailed(f"publish of {version!r} from {weights_path}: {failed}. {state}") from failed
            await self._unload_oldest(engine, weights_path)
        return Published(version=version, weights_path=weights_path, probe_difference=difference)

    async def _load(self, engine: Serving, weights_path: str, version: str) -> None:
        again = version in _adapters(await engine.cards())
        if again:
            # Loaded in its place it would not be the last one, which is the one that new turns ask for.
            await _unload(engine, version)
        # In place: vLLM refuses a name that it has, and a call whose answer was lost is made again.
        call = {"lora_name": version, "lora_path": weights_path, "load_inplace": True}
        try:
            await engine.post("/v1/load_lora_adapter", call)
        except CallFailed as failed:
            raise CallFailed(f"{failed}. {_HOW}") from failed
        if again:
            # vLLM keeps states by the adapter's name and folder, and a learner that went back to an older checkpoint
            # makes other weights of the same name. What is left of them, the probe finds.
            await engine.post_where_offered("/reset_prefix_cache")
        if version not in _adapters(await engine.cards()):
            raise CallFailed(f"the engine answered success and does not list {version!r}")

    async def _take_back(self, engine: Serving, version: str) -> str:
        """What serves now, in words."""
        try:
            await _unload(engine, version)
            left = _adapters(await engine.cards())
        except CallFailed as failed:
            return f"Unloading it failed too ({failed}): restart the engine, then publish again"
        serving = (
            f"The adapter {left[-1]!r} serves on" if left else "No adapter is loaded: the engine's own model serves"
        )
        return f"{serving}: mend what is named here, then publish again"

    async def _unload_oldest(self, engine: Serving, weights_path: str) -> None:
        """Of those that were loaded from the same place. The new version serves already: what fails here only costs
        memory, and is tried again after the next publish."""
        siblings = Path(weights_path).parent
        try:
            ours = [card.id for card in await engine.cards() if card.root and Path(card.root).parent == siblings]
            for name in ours[: -self._kept]:
                await _unload(engine, name)
        except CallFailed as failed:
            _log.warning("an old adapter could not be unloaded: %s", failed)


def _adapters(cards: Sequence[Card]) -> list[str]:
    return [card.id for card in cards if card.parent is not None]


async def _unload(engine: Serving, name: str) -> None:
    await engine.post("/v1/unload_lora_adapter", {"lora_name": name}, also=_GONE)
