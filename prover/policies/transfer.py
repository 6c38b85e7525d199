"""New weights into a vLLM on GPUs by its own transfer of weights: tensors go over NCCL, and HTTP says when.

A vLLM (0.32 and later) that was started with `--weight-transfer-config '{"backend": "nccl"}'` and
VLLM_SERVER_DEV_MODE=1 offers, once for a group of processes, POST /init_weight_transfer_engine, and for each version
/start_weight_update, /update_weights (the engine receives while the trainer broadcasts), /finish_weight_update. The
group is found by NCCL's unique id, so that the trainer needs nothing of vLLM's: rank 0 is the trainer, the engine's
workers come after it.

Source: vLLM 0.32, docs/training/weight_transfer and vllm/entrypoints/rl/online/api_router.py.
"""

import asyncio
import base64
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from prover.policies.publish import Published, PublishFailed, check_version, read_version
from prover.policies.serving import CallFailed, Probe, Serving, connect

_TRAINERS = 1
_BROKEN = (
    "The group of trainer and engine is of no more use, since one of them may wait in it for the other: start the "
    "engine again with the weights that served before, and the learner"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One tensor of a version: its name in the checkpoint, torch's name of its number format, its shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]


class Sender(Protocol):
    """Rank 0 of a group of processes with a GPU each. Its calls block until all of them have taken part."""

    def unique_id(self) -> bytes:
        """What the ranks of a new group find each other by: 128 bytes."""
        ...

    def join(self, unique_id: bytes, size: int) -> None:
        """Becomes rank 0 of a group, in the place of the one before."""
        ...

    def list_tensors(self, weights_path: str) -> Sequence[Listed]:
        """What `send` would send, in its order."""
        ...

    def send(self, weights_path: str) -> None:
        """Broadcasts every tensor of a version."""
        ...


class WeightTransfer:
    """Sends what is in a folder of this machine. The engine need not see the folder."""

    def __init__(self, base_url: str, sender: Sender, *, timeout_s: float = 600.0, api_key: str = "") -> None:
        """`base_url` without "/v1". `timeout_s` is for each call, with what the sender does meanwhile."""
        self._base_url = base_url.rstrip("/")
        self._sender = sender
        self._timeout_s = timeout_s
        self._api_key = api_key
        self._sent = ""
        self._broken = False

    async def publish(
        self, weights_path: str, *, probe: Probe | None = None, previous_path: str | None = None
    ) -> Published:
        """Answers when the new weights serve and are proven. Raises PublishFailed. Where they were sent and turn out
        wrong, those of `previous_path` are sent; where the sending failed, engine and learner must be started again."""
        version = read_version(weights_path)
        if self._broken:
            raise PublishFailed(
                f"publish of {version!r} from {weights_path}: an earlier one failed half-way. {_BROKEN}"
            )
        async with connect(self._base_url, timeout_s=self._timeout_s, api_key=self._api_key) as engine:
            try:
                await self._join(engine)
                await self._load(engine, weights_path, version)
                difference = await check_version(engine, version, probe)
            except CallFailed as failed:
                state = _BROKEN if self._broken else await self._put_back(engine, previous_path)
                raise PublishFailed(f"publish of {version!r} from {weights_path}: {failed}. {state}") from failed
        return Published(version=version, weights_path=weights_path, probe_difference=difference)

    async def _join(self, engine: Serving) -> None:
        """Unless the engine still is the one that has what was sent last: a restarted one is in no group."""
        if self._sent and await engine.weight_version() == self._sent:
            return
        workers = await engine.workers()
        size, unique_id = _TRAINERS + workers, self._sender.unique_id()
        info = {
            "nccl_unique_id_b64": base64.b64encode(unique_id).decode(),
            "rank_offset": _TRAINERS,
            "world_size": size,
            "packed": False,
        }
        call = ("/init_weight_transfer_engine", {"init_info": info})
        await self._both(engine, *call, work=lambda: self._sender.join(unique_id, size))

    async def _load(self, engine: Serving, weights_path: str, version: str) -> None:
        """The engine is resumed whatever happens: a failed publish must not stop the sampling."""
        tensors = self._sender.list_tensors(weights_path)
        info = {
            "names": [tensor.name for tensor in tensors],
            "dtype_names": [tensor.dtype for tensor in tensors],
            "shapes": [list(tensor.shape) for tensor in tensors],
        }
        await engine.post("/pause?mode=wait")
        try:
            await engine.post("/start_weight_update")
            call = ("/update_weights", {"update_info": info})
            await self._both(engine, *call, work=lambda: self._sender.send(weights_path))
            await engine.post("/finish_weight_update", {"weight_version": version})
            self._sent = version
            await engine.reset_prefix_cache()
        finally:
            await engine.post("/resume")

    async def _put_back(self, engine: Serving, previous_path: str | None) -> str:
        """What serves now, in words."""
        if previous_path is None or not self._sent:
            return "Nothing was sent back: ask the engine what it serves, then publish again"
        try:
            await self._load(engine, previous_path, read_version(previous_path))
        except (CallFailed, PublishFailed) as failed:
            return f"Going back to {previous_path} failed too ({failed}): restart the engine with those weights"
        return f"The weights of {previous_path} serve again: mend what is named here, then publish again"

    async def _both(self, engine: Serving, path: str, body: object, *, work: Callable[[], None]) -> None:
        """The engine's part, and the trainer's at the same time. Each waits for the other inside NCCL: where one fails,
        the other is not waited for, and the group is not used again."""
        working = _in_thread(work)
        asking = asyncio.ensure_future(engine.post_once(path, body))
        try:
            async with asyncio.timeout(self._timeout_s):
                await asyncio.gather(working, asking)
        except (CallFailed, RuntimeError, TimeoutError) as error:
            self._broken = True
            raise error if isinstance(error, CallFailed) else CallFailed(f"{path}: {error!r}") from error
        finally:
            asking.cancel()


def _in_thread(work: Callable[[], None]) -> asyncio.Future[None]:
    """In a thread that ends with the process, since nothing else ends a wait in NCCL."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def settle(error: Exception | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    def run() -> None:
        error: Exception | None = None
        try:
            work()
        except Exception as raised:
            error = raised
        with suppress(RuntimeError):  # The loop may be gone by then, and with it whoever waited.
            loop.call_soon_threadsafe(settle, error)

    threading.Thread(target=run, name="weight transfer", daemon=True).start()
    return done
