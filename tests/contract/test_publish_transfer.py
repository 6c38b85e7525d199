"""Weights sent to a server that behaves as vLLM does. What goes over NCCL there goes through a queue here; the order of
calls, what is listed, what arrives, and the proof are the real ones."""

import queue
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from served_engine import serve
from tiny_policy import write_tiny_weights

from prover.policies.publish import PublishFailed
from prover.policies.transfer import Listed, WeightTransfer
from services.learner.nccl import NcclSender, list_tensors
from tests.contract.test_publish import probe_of
from tests.scripted_vllm import TransferVllm

ROUND = ["pause wait", "start", "update", "finish", "reset", "resume"]


class QueueSender:
    """Rank 0 of a group whose broadcasts are puts."""

    def __init__(self, wire: "queue.Queue[Any]") -> None:
        self.wire = wire
        self.groups = 0
        self.blocked = threading.Event()

    def unique_id(self) -> bytes:
        self.groups += 1
        return bytes([self.groups]) * 128

    def join(self, unique_id: bytes, size: int) -> None:
        self.wire.put((unique_id, size))

    def list_tensors(self, weights_path: str) -> Sequence[Listed]:
        return list_tensors(Path(weights_path))

    def send(self, weights_path: str) -> None:
        state = load_file(Path(weights_path) / "model.safetensors")
        for listed in self.list_tensors(weights_path):
            self.wire.put(state[listed.name])


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return write_tiny_weights(tmp_path / "v0", seed=0, version="v0")


@pytest.fixture
def new(tmp_path: Path) -> Path:
    return write_tiny_weights(tmp_path / "v1", seed=1, version="v1", dtype="bfloat16")


@pytest.fixture
def vllm(old: Path) -> TransferVllm:
    return TransferVllm(old)


@pytest.fixture
def address(vllm: TransferVllm) -> Iterator[str]:
    with serve(vllm.app()) as url:
        yield url


@pytest.fixture
def sender(vllm: TransferVllm) -> QueueSender:
    return QueueSender(vllm.wire)


async def test_what_is_sent_serves_and_is_proven(
    address: str, vllm: TransferVllm, sender: QueueSender, old: Path, new: Path
) -> None:
    transfer = WeightTransfer(address, sender)
    published = await transfer.publish(str(new), probe=probe_of(new))
    assert (published.version, vllm.version) == ("v1", "v1")
    assert published.probe_difference < 1e-3
    assert vllm.calls == ["init", *ROUND]
    # The group is there already: the second version is only sent.
    await transfer.publish(str(old), probe=probe_of(old))
    assert vllm.calls == ["init", *ROUND, *ROUND]
    assert sender.groups == 1


async def test_an_engine_that_keeps_the_old_weights_is_found_out_and_those_are_sent_back(
    address: str, vllm: TransferVllm, sender: QueueSender, old: Path, new: Path
) -> None:
    vllm.deaf = True
    with pytest.raises(PublishFailed, match=r"differ by .* nats.*weights of .*/v0 serve again"):
        await WeightTransfer(address, sender).publish(str(new), probe=probe_of(new), previous_path=str(old))
    assert vllm.version == "v0"
    assert not vllm.paused


async def test_an_engine_that_was_started_again_joins_a_new_group(
    address: str, vllm: TransferVllm, sender: QueueSender, old: Path, new: Path
) -> None:
    transfer = WeightTransfer(address, sender)
    await transfer.publish(str(new), probe=probe_of(new))
    vllm.restart(old)
    await transfer.publish(str(new), probe=probe_of(new))
    assert sender.groups == 2
    assert vllm.version == "v1"


async def test_a_transfer_that_fails_half_way_is_not_waited_for_and_not_tried_again(
    address: str, vllm: TransferVllm, sender: QueueSender, new: Path
) -> None:
    vllm.failing = True
    waiting = threading.Event()
    sender.send = lambda weights_path: waiting.wait(30) and None  # as a broadcast that nobody receives
    transfer = WeightTransfer(address, sender)
    with pytest.raises(PublishFailed, match=r"/update_weights: 500.*start the engine again"):
        await transfer.publish(str(new))
    assert not vllm.paused
    with pytest.raises(PublishFailed, match="an earlier one failed half-way"):
        await transfer.publish(str(new))
    waiting.set()


async def test_an_engine_that_is_not_there_is_said_to_be_so(sender: QueueSender, new: Path) -> None:
    with pytest.raises(PublishFailed, match="ConnectError"):
        await WeightTransfer("http://127.0.0.1:9", sender).publish(str(new))


def test_tensors_are_listed_as_they_lie_in_the_file(new: Path) -> None:
    listed = list_tensors(new)
    state = load_file(new / "model.safetensors")
    assert {tensor.name: tensor.shape for tensor in listed} == {
        name: tuple(tensor.shape) for name, tensor in state.items()
    }
    assert {tensor.dtype for tensor in listed} == {"bfloat16"}


def test_a_learner_without_a_gpu_cannot_send() -> None:
    with pytest.raises(ValueError, match='publish: was "nccl" on cpu; expected a GPU, or "folder"'):
        NcclSender(torch.device("cpu"))
