"""The processes that train together, each with a share of the weights, or the one that trains alone.

torchrun starts them. Every rank holds a `Learner` and makes the same calls on it in the same order. Rank 0 serves
callers and writes files; see leader.py for how the others hear of a call.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

_T = TypeVar("_T")
_IDLE = timedelta(days=365)
"""How long a rank may wait for the next call. That a peer died shows by its closed connection, at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """This process among its peers. Every method is called by all of them, in the same order.

    Attributes:
        rank: number of this process, from 0.
        size: how many there are.
        device: what this process computes on.
        mesh: of the devices of all of them; None where there is one.
        control: for what is not tensors of a device; over gloo, whatever the device.
    """

    rank: int
    size: int
    device: torch.device
    mesh: DeviceMesh | None = None
    control: Any = None

    def shard(self, model: nn.Module) -> nn.Module:
        """The model on the device. With peers each keeps a share of every layer (FSDP2): a layer's weights are put
        together when it is computed, and its gradients are averaged over the ranks."""
        if self.mesh is None:
            return model.to(self.device)
        layers: Any = getattr(model, "_no_split_modules", None) or ()
        for module in list(model.modules()):
            if type(module).__name__ in layers:
                fully_shard(module, mesh=self.mesh)
        fully_shard(model, mesh=self.mesh)
        return model

    def sum(self, values: Sequence[float]) -> list[float]:
        """Of each of the values, over all ranks."""
        return self._reduce(values, distributed.ReduceOp.SUM)

    def most(self, value: int) -> int:
        """The greatest one of all ranks."""
        return int(self._reduce([value], distributed.ReduceOp.MAX)[0])

    def tell(self, value: _T) -> _T:
        """Rank 0's value."""
        if self.size == 1:
            return value
        told: list[Any] = [value if self.rank == 0 else None]
        distributed.broadcast_object_list(told, src=0, group=self.control)
        return told[0]

    def first(self, work: Callable[[], _T]) -> _T:
        """Has rank 0 do it. Its result, or its exception, is everybody's."""
        if self.size == 1:
            return work()
        result: _T | None = None
        failure: Exception | None = None
        if self.rank == 0:
            try:
                result = work()
            except Exception as error:
                failure = error
        result, failure = self.tell((result, failure))
        if failure is not None:
            raise failure
        answer: Any = result
        return answer

    def gather(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Whole tensors, on rank 0; nothing on the others."""
        gathered: dict[str, Tensor] = {}
        for name, tensor in tensors.items():
            complete = whole(tensor.detach())
            if self.rank == 0:
                gathered[name] = complete if self.size == 1 else complete.cpu()
        return gathered

    def _reduce(self, values: Sequence[float], how: Any) -> list[float]:
        if self.size == 1:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.float64)
        distributed.all_reduce(tensor, op=how, group=self.control)
        return tensor.tolist()


def alone() -> Ranks:
    """The only process, on a GPU where there is one."""
    return Ranks(rank=0, size=1, device=_device(0))


@contextmanager
def join_ranks(*, rank: int, size: int, local_rank: int) -> Generator[Ranks]:
    """Meets the peers where MASTER_ADDR and MASTER_PORT say; the numbers are torchrun's."""
    device = _device(local_rank)
    if size == 1:
        yield alone()
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    distributed.init_process_group(
        "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo", rank=rank, world_size=size
    )
    try:
        control = distributed.new_group(backend="gloo", timeout=_IDLE)
        mesh = init_device_mesh(device.type, (size,))
        yield Ranks(rank=rank, size=size, device=device, mesh=mesh, control=control)
    finally:
        distributed.destroy_process_group()


def whole(tensor: Tensor) -> Tensor:
    """The tensor without its division among ranks. With peers, all of them call it."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def divided_like(tensor: Tensor, like: Tensor) -> Tensor:
    """This rank's share of a whole tensor that every rank has, as `like` is divided. What is not divided stays so."""
    if not isinstance(like, DTensor) or tensor.shape != like.shape:
        return tensor
    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements, src_data_rank=None)


def _device(local_rank: int) -> torch.device:
    return torch.device("cuda", local_rank) if torch.cuda.is_available() else torch.device("cpu")
