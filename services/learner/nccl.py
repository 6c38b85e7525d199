"""The trainer's side of a transfer of weights to a vLLM: rank 0 of a group of GPUs, over NCCL by torch's own bindings.

Trainer and engine need NCCL of one version (the same torch), and GPUs of their own. Written after vLLM 0.32's
documentation and source; not yet tried on GPUs.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch.cuda import nccl

from prover.policies.transfer import Listed

_FILE = "model.safetensors"
_FORMATS = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}


class NcclSender:
    """Sends from one GPU. Implements `prover.policies.transfer.Sender`."""

    def __init__(self, device: torch.device) -> None:
        """ValueError where that is no GPU."""
        if device.type != "cuda":
            raise ValueError(f'publish: was "nccl" on {device}; expected a GPU, or "folder"')
        self._device = device
        self._group: Any = None

    def unique_id(self) -> bytes:
        """What the ranks of a new group find each other by."""
        bindings: Any = nccl
        return bindings.unique_id()

    def join(self, unique_id: bytes, size: int) -> None:
        """Becomes rank 0 of a group. The engine's workers add up one number when they have joined: so does this one."""
        bindings: Any = nccl
        with torch.cuda.device(self._device):
            self._group = bindings.init_rank(size, unique_id, 0)
            nccl.all_reduce([torch.zeros(1, device=self._device)], comms=[self._group])
            torch.cuda.current_stream().synchronize()

    def list_tensors(self, weights_path: str) -> Sequence[Listed]:
        """What `send` would send, in its order."""
        return list_tensors(Path(weights_path))

    def send(self, weights_path: str) -> None:
        """One tensor after the other, each of which is on the GPU only while it is sent."""
        with torch.cuda.device(self._device), _opened(Path(weights_path), str(self._device)) as file:
            for listed in list_tensors(Path(weights_path)):
                tensor = file.get_tensor(listed.name)
                nccl.broadcast([tensor], root=0, comms=[self._group])
                torch.cuda.current_stream().synchronize()


def list_tensors(folder: Path) -> list[Listed]:
    """The tensors of a version, in the order of the file."""
    with _opened(folder, "cpu") as file:
        names: list[str] = file.keys()
        slices = {name: file.get_slice(name) for name in names}
        return [
            Listed(name=name, dtype=_FORMATS[each.get_dtype()], shape=tuple(each.get_shape()))
            for name, each in slices.items()
        ]


def _opened(folder: Path, device: str) -> Any:
    return safe_open(str(folder / _FILE), framework="pt", device=device)
