"""New weights into a running policy engine, proven before they count.

Engines have answered "loaded" and gone on serving the old weights (vLLM issue 32718), or served states that a prefix
cache had kept from weights long gone. So a publish is not done when the engine says so. It is done when the engine
names the new version, where it names versions at all, and when what it samples has the log-probabilities that the
trainer computes for it. Otherwise the weights that served before are put back.

Three ways, all proven alike: a folder that the engine reads (`SharedStorage`, here), an adapter under the version's
name (adapters.py), and tensors sent from GPU to GPU (transfer.py).
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from prover.policies.serving import CallFailed, Probe, Serving, connect

__all__ = ["Probe", "PublishFailed", "Published", "Publisher", "SharedStorage", "check_version", "read_version"]


class PublishFailed(Exception):
    """The new weights do not serve. Says what went wrong, what serves now, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A version that serves.

    Attributes:
        probe_difference: greatest difference between trainer and engine over the probe's tokens, in nats; 0 where the
            publisher had no trainer to compare with.
    """

    version: str
    weights_path: str
    probe_difference: float


class Publisher(Protocol):
    """A way of getting weights into an engine."""

    async def publish(
        self, weights_path: str, *, probe: Probe | None = None, previous_path: str | None = None
    ) -> Published:
        """Answers when the new weights serve and are proven. Raises PublishFailed."""
        ...


class SharedStorage:
    """Weights in a folder that the engine reads: the embedded engine, and vLLM in its development mode.

    Both (vLLM with `VLLM_SERVER_DEV_MODE=1`) take the same four calls: /pause, /collective_rpc reload_weights,
    /reset_prefix_cache, /resume. vLLM is told the version's name too (/update_weight_version, where it has that),
    before it goes on. The pause lets turns in flight finish (`mode=wait`): no turn is sampled from two versions.
    """

    def __init__(self, base_url: str, *, timeout_s: float = 600.0, api_key: str = "") -> None:
        """`base_url` without "/v1". `timeout_s` is for each call; a pause waits for the turns in flight. `api_key` is
        sent as a bearer token; empty sends none."""
        self._base_url = base_url.rstrip("/")
        self._timeout_s = timeout_s
        self._api_key = api_key

    async def publish(
        self, weights_path: str, *, probe: Probe | None = None, previous_path: str | None = None
    ) -> Published:
        """Answers when the new weights serve and are proven. Raises PublishFailed.

        `previous_path`: the folder to go back to where the new weights load and turn out wrong, or where an engine
        (vLLM) may have stopped half-way. The embedded engine checks a folder as a whole before it lets go of the old
        weights.
        """
        version = read_version(weights_path)
        async with connect(self._base_url, timeout_s=self._timeout_s, api_key=self._api_key) as engine:
            try:
                await self._load(engine, weights_path, version)
                difference = await check_version(engine, version, probe)
            except CallFailed as failed:
                state = await self._put_back(engine, previous_path)
                raise PublishFailed(f"publish of {version!r} from {weights_path}: {failed}. {state}") from failed
        return Published(version=version, weights_path=weights_path, probe_difference=difference)

    async def _load(self, engine: Serving, weights_path: str, version: str) -> None:
        """The engine is resumed whatever happens: a failed publish must not stop the sampling."""
        await engine.post("/pause?mode=wait")
        try:
            call = {"method": "reload_weights", "kwargs": {"weights_path": weights_path}}
            await engine.post("/collective_rpc", call)
            await engine.reset_prefix_cache()
            # Not there in the embedded engine, whose weights know their version, nor in a vLLM older than 0.32.
            await engine.post_where_offered("/update_weight_version", {"new_version": version})
        finally:
            await engine.post("/resume")

    async def _put_back(self, engine: Serving, previous_path: str | None) -> str:
        """What serves now, in words."""
        if previous_path is None:
            return "No earlier weights were named to go back to: ask the engine what it serves, then publish again"
        try:
            version = read_version(previous_path)
            await self._load(engine, previous_path, version)
            await check_version(engine, version, None)
        except (CallFailed, PublishFailed) as failed:
            return f"Going back to {previous_path} failed too ({failed}): restart the engine with those weights"
        return f"The weights of {previous_path} serve again: mend what is named here, then publish again"


async def check_version(engine: Serving, version: str, probe: Probe | None) -> float:
    """That the engine's own model serves that version; see `Serving.prove`. Raises CallFailed."""
    cards = await engine.cards()
    served = {card.weights_version for card in cards} - {None}
    if served and version not in served:
        raise CallFailed(f"the engine answered success and still names {', '.join(map(str, served))}")
    return 0.0 if probe is None else await engine.prove(cards[0].id, probe)


def read_version(weights_path: str) -> str:
    """The version that a weights folder names in its prover.json. Raises PublishFailed."""
    manifest = Path(weights_path) / "prover.json"
    try:
        version = json.loads(manifest.read_text())["version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PublishFailed(
            f'weights_path: {manifest}: {type(error).__name__}: {error}; expected {{"version": "v1", ...}}. '
            "Nothing was changed"
        ) from error
    return str(version)
