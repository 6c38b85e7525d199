"""Adapters under their versions' names, in a server that behaves as vLLM does: written, loaded, proven, let go."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from safetensors.torch import load_file
from served_engine import serve
from tiny_policy import random_trajectory, write_tiny_weights

from prover.policies import PolicyClient, Sampling
from prover.policies.adapters import Adapters
from prover.policies.publish import Probe, PublishFailed
from prover.training.learner_experiment import LearnerExperiment
from prover.trajectory import Turn
from services.learner.learner import Learner
from services.learner.metrics import LearnerMetrics
from services.learner.serial import SerialLearner
from tests.scripted_vllm import AdapterVllm

PROMPT = (10, 12, 11)
BATCH = [random_trajectory(seed) for seed in range(4)]


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    return write_tiny_weights(tmp_path / "weights")


@pytest.fixture
def vllm(weights: Path) -> AdapterVllm:
    return AdapterVllm(weights)


@pytest.fixture
def address(vllm: AdapterVllm) -> Iterator[str]:
    with serve(vllm.app()) as url:
        yield url


@pytest.fixture
def learner(weights: Path, tmp_path: Path) -> Learner:
    experiment = LearnerExperiment(learning_rate=3e-2, lora_rank=4, publish="adapter", versions_kept=3)
    return Learner(weights, tmp_path / "out", experiment)


@pytest.fixture
def next_version(learner: Learner) -> Callable[[], tuple[str, Probe]]:
    """Takes a step: the adapter's folder, and a probe against the weights that it was written from."""

    def step() -> tuple[str, Probe]:
        learner.step(BATCH)

        async def score(context: Sequence[int], sampled: Sequence[int]) -> tuple[float, ...]:
            turn = Turn(
                observation="", text="", action=None, context_token_ids=tuple(context), token_ids=tuple(sampled)
            )
            return learner.score([turn])[0]

        return str(learner.save_version()), Probe(context_token_ids=PROMPT, score=score, tolerance=1e-3)

    return step


async def test_a_step_is_published_as_an_adapter_and_sampled_by_its_name(
    address: str, vllm: AdapterVllm, learner: Learner
) -> None:
    serial = SerialLearner(
        learner,
        Adapters(address),
        probe_tokens=PROMPT,
        probe_tolerance=1e-3,
        observer=LearnerMetrics(CollectorRegistry()),
    )
    client = PolicyClient(address)
    versions = []
    try:
        versions.append((await client.complete(PROMPT, Sampling(max_tokens=3))).policy_version)
        for _ in range(2):
            await serial.step(BATCH, after_step=None)
            published = await serial.publish()
            assert 0 <= published.probe_difference < 1e-3
            completion = await client.complete(PROMPT, Sampling(max_tokens=3, seed=5))
            expected = await serial.score([_turn(completion.token_ids)])
            assert completion.logprobs == pytest.approx(expected[0], abs=1e-3)
            versions.append(completion.policy_version)
            assert (await client.info()).version == completion.policy_version == published.version
    finally:
        await client.aclose()
        serial.close()
    assert versions == ["tiny", "v1", "v2"]
    assert vllm.calls == ["load v1", "load v2"]


async def test_a_version_holds_the_adapter_alone_in_the_asked_for_format(weights: Path, tmp_path: Path) -> None:
    experiment = LearnerExperiment(lora_rank=2, publish="adapter", publish_dtype="bfloat16")
    folder = Learner(weights, tmp_path / "out", experiment).save_version()
    assert sorted(path.name for path in folder.iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
        "prover.json",
    ]
    numbers = load_file(folder / "adapter_model.safetensors")
    assert all("lora_" in name and str(tensor.dtype) == "torch.bfloat16" for name, tensor in numbers.items())
    # Two layers of seven linear maps, each with the two factors of its change; neither embeddings nor head.
    assert len(numbers) == 2 * 7 * 2


async def test_old_adapters_are_unloaded_and_their_folders_removed_beyond_the_bound(
    address: str, vllm: AdapterVllm, learner: Learner, next_version: Callable[[], tuple[str, Probe]]
) -> None:
    vllm.adapters["somebody-elses"] = ("/elsewhere/adapter", vllm.base)
    for _ in range(5):
        path, probe = next_version()
        await Adapters(address, kept=3).publish(path, probe=probe)
        learner.mark_published(Path(path))
    assert list(vllm.adapters) == ["somebody-elses", "v3", "v4", "v5"]
    assert sorted(folder.name for folder in Path(path).parent.iterdir()) == ["v3", "v4", "v5"]


async def test_an_adapter_that_is_not_the_trainers_is_unloaded_and_the_one_before_serves_on(
    address: str, vllm: AdapterVllm, next_version: Callable[[], tuple[str, Probe]]
) -> None:
    path, probe = next_version()
    await Adapters(address).publish(path, probe=probe)
    vllm.stale.add("v2")
    path, probe = next_version()
    with pytest.raises(PublishFailed, match=r"'v2'.*differ by .* nats.*The adapter 'v1' serves on"):
        await Adapters(address).publish(path, probe=probe)
    client = PolicyClient(address)
    assert (await client.complete(PROMPT, Sampling(max_tokens=1))).policy_version == "v1"
    await client.aclose()


async def test_an_adapter_that_cannot_be_loaded_leaves_the_engines_own_model(
    address: str, vllm: AdapterVllm, next_version: Callable[[], tuple[str, Probe]]
) -> None:
    path, probe = next_version()
    (Path(path) / "adapter_config.json").unlink()
    with pytest.raises(PublishFailed, match=r"404.*No adapter found.*--enable-lora.*own model serves"):
        await Adapters(address).publish(path, probe=probe)
    assert not vllm.adapters


async def test_a_load_whose_answer_was_lost_is_asked_for_again(
    address: str, vllm: AdapterVllm, next_version: Callable[[], tuple[str, Probe]]
) -> None:
    vllm.losing = 1
    path, probe = next_version()
    assert (await Adapters(address).publish(path, probe=probe)).version == "v1"
    assert vllm.calls == ["load v1", "load v1"]


async def test_a_version_that_is_published_again_is_the_newest_again(
    address: str, vllm: AdapterVllm, next_version: Callable[[], tuple[str, Probe]]
) -> None:
    first, _ = next_version()
    second, probe = next_version()
    for path in (first, second, first):
        await Adapters(address).publish(path)
    assert list(vllm.adapters) == ["v2", "v1"]
    assert (await Adapters(address).publish(second, probe=probe)).probe_difference < 1e-3


def test_fewer_than_two_adapters_are_refused() -> None:
    with pytest.raises(ValueError, match="kept: was 1; expected 2 or more"):
        Adapters("http://127.0.0.1:9", kept=1)


def test_publishing_adapters_needs_adapters() -> None:
    with pytest.raises(ValueError, match="lora_rank above 0"):
        LearnerExperiment(publish="adapter")


def _turn(tokens: tuple[int, ...]) -> Turn:
    return Turn(observation="", text="", action=None, context_token_ids=PROMPT, token_ids=tokens)
