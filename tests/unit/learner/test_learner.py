"""What a step does to the weights, and what it leaves alone."""

import json
import math
import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny_policy import random_trajectory, write_tiny_weights

from prover.training.learner_experiment import LearnerExperiment, read_learner_experiment
from prover.trajectory import CreditedTrajectory, Turn, TurnCredit
from services.engine.weights import load_weights
from services.learner.folders import WriteFailed
from services.learner.learner import Learner, StepRefused
from services.learner.weights import version_after

FAST = LearnerExperiment(learning_rate=1e-2)
BATCH = tuple(random_trajectory(seed) for seed in range(6))


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    return write_tiny_weights(tmp_path / "weights")


def numbers(learner: Learner) -> dict[str, torch.Tensor]:
    """The weights, as they would be published."""
    return load_file(learner.save_version() / "model.safetensors")


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def turns_of(batch: Sequence[CreditedTrajectory]) -> list[Turn]:
    return [turn for credited in batch for turn in credited.trajectory.turns]


def on_policy(learner: Learner, batch: Sequence[CreditedTrajectory]) -> list[CreditedTrajectory]:
    """The batch as if the learner's present weights had sampled it."""
    changed = []
    for credited in batch:
        turns = credited.trajectory.turns
        scored = learner.score(turns)
        turns = tuple(replace(turn, logprobs=values) for turn, values in zip(turns, scored, strict=True))
        changed.append(replace(credited, trajectory=replace(credited.trajectory, turns=turns)))
    return changed


def test_tokens_with_a_positive_advantage_become_more_likely(weights: Path, tmp_path: Path) -> None:
    learner = Learner(weights, tmp_path / "out", FAST)
    batch = on_policy(learner, [random_trajectory(1, advantage=1.0)])
    before = sum(map(sum, learner.score(turns_of(batch))))
    metrics = learner.step(batch)
    assert sum(map(sum, learner.score(turns_of(batch)))) > before
    assert metrics.engine_kl == pytest.approx(0, abs=1e-6)
    assert metrics.loss == pytest.approx(-1.0, abs=1e-5)
    assert 0 < metrics.entropy < math.log(16)
    assert metrics.padding == 0


def test_a_batch_without_advantages_changes_nothing_at_all(weights: Path, tmp_path: Path) -> None:
    learner = Learner(weights, tmp_path / "out", FAST.model_copy(update={"weight_decay": 0.1}))
    learner.step(BATCH)  # momentum and weight decay would move the weights from here on
    before, state = numbers(learner), learner.state
    metrics = learner.step([random_trajectory(seed, advantage=0.0) for seed in range(4)])
    assert same(numbers(learner), before)
    assert learner.state == state
    assert metrics.step == 1
    assert metrics.engine_kl > 0


def test_a_reference_is_held_to_even_without_advantages(weights: Path, tmp_path: Path) -> None:
    learner = Learner(weights, tmp_path / "out", FAST.model_copy(update={"kl_weight": 1.0}))
    learner.step(BATCH)
    silent = [random_trajectory(seed, advantage=0.0) for seed in range(4)]
    away = [learner.step(silent).reference_kl for _ in range(8)]
    assert away[-1] < away[0]


def test_a_gradient_that_is_not_finite_is_thrown_away(weights: Path, tmp_path: Path) -> None:
    learner = Learner(weights, tmp_path / "out", FAST)
    before = numbers(learner)
    with pytest.raises(StepRefused, match=r"gradient: its norm was (nan|inf); expected a finite number"):
        learner.step([random_trajectory(0, advantage=-1e300)])
    assert same(numbers(learner), before)
    assert learner.step(BATCH).step == 1


def test_the_gradient_is_bounded_before_it_is_used(weights: Path, tmp_path: Path) -> None:
    """AdamW does not see the scale of a gradient, but the share that old gradients have in its momentum."""
    ends = []
    for name, bound in (("a", 1e-3), ("b", 1e3)):
        learner = Learner(weights, tmp_path / name, FAST.model_copy(update={"max_gradient_norm": bound}))
        assert learner.step(BATCH).gradient_norm > 1e-3
        learner.step([random_trajectory(9)])
        ends.append(numbers(learner))
    assert not same(*ends)


def test_a_learner_that_was_started_again_goes_on_as_if_it_had_never_stopped(weights: Path, tmp_path: Path) -> None:
    steady = Learner(weights, tmp_path / "steady", FAST.model_copy(update={"warmup_steps": 3}))
    for number in range(4):
        steady.step(BATCH[number:])
        Learner(weights, tmp_path / "restarted", FAST.model_copy(update={"warmup_steps": 3})).step(BATCH[number:])
    restarted = Learner(weights, tmp_path / "restarted", FAST)
    assert restarted.state == steady.state
    assert same(numbers(restarted), numbers(steady))


def test_only_the_last_two_checkpoints_are_kept(weights: Path, tmp_path: Path) -> None:
    learner = Learner(weights, tmp_path / "out", FAST)
    for _ in range(4):
        learner.step(BATCH)
    assert sorted(path.name for path in (tmp_path / "out/checkpoints").iterdir()) == ["step-00000003", "step-00000004"]


def test_a_step_that_is_asked_for_twice_is_taken_once(weights: Path, tmp_path: Path) -> None:
    learner = Learner(weights, tmp_path / "out", FAST)
    first = learner.step(BATCH, after_step=0)
    again = learner.step(BATCH, after_step=0)
    started_again = Learner(weights, tmp_path / "out", FAST).step(BATCH, after_step=0)
    assert first == again == started_again
    assert learner.state.step == 1


def test_a_step_out_of_order_is_refused(weights: Path, tmp_path: Path) -> None:
    learner = Learner(weights, tmp_path / "out", FAST)
    with pytest.raises(StepRefused, match="after_step: was 3; expected 0"):
        learner.step(BATCH, after_step=3)


@contextmanager
def small_files(limit: int) -> Iterator[None]:
    """No file may grow beyond `limit` bytes: writing fails as it does on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_said_clearly_and_the_last_checkpoint_stays(weights: Path, tmp_path: Path) -> None:
    learner = Learner(weights, tmp_path / "out", FAST)
    learner.step(BATCH, after_step=0)
    with small_files(10_000), pytest.raises(WriteFailed, match="MiB are free on its disk; make room there"):
        learner.step(BATCH, after_step=1)
    assert [path.name for path in (tmp_path / "out/checkpoints").iterdir()] == ["step-00000001"]
    assert Learner(weights, tmp_path / "out", FAST).state.step == 1
    assert learner.step(BATCH, after_step=1).step == 2  # the same call again saves what was taken
    assert Learner(weights, tmp_path / "out", FAST).state.step == 2


def test_a_version_that_does_not_fit_on_the_disk_leaves_no_half_a_folder(weights: Path, tmp_path: Path) -> None:
    learner = Learner(weights, tmp_path / "out", FAST)
    with small_files(10_000), pytest.raises(WriteFailed):
        learner.save_version()
    assert list((tmp_path / "out/versions").iterdir()) == []


def test_a_version_is_what_the_engine_loads(weights: Path, tmp_path: Path) -> None:
    learner = Learner(weights, tmp_path / "out", FAST)
    learner.step(BATCH)
    loaded = load_weights(learner.save_version())
    assert (loaded.version, loaded.name) == ("v1", "tiny")
    turn = BATCH[0].trajectory.turns[1]
    context, sampled = list(turn.context_token_ids or ()), list(turn.token_ids or ())
    with torch.no_grad():
        distribution = loaded.model(torch.tensor([[*context, *sampled]])).logits[0].log_softmax(-1)
    theirs = [distribution[len(context) + place - 1, token].item() for place, token in enumerate(sampled)]
    assert learner.score([turn])[0] == pytest.approx(theirs, abs=1e-5)


def test_a_version_is_written_in_the_number_format_that_was_asked_for(tmp_path: Path) -> None:
    weights = write_tiny_weights(tmp_path / "weights", dtype="bfloat16")
    learner = Learner(weights, tmp_path / "out", FAST)
    learner.step(BATCH)
    assert {tensor.dtype for tensor in numbers(learner).values()} == {torch.float32}
    halves = Learner(weights, tmp_path / "halves", FAST.model_copy(update={"publish_dtype": "bfloat16"}))
    assert {tensor.dtype for tensor in numbers(halves).values()} == {torch.bfloat16}


@pytest.mark.parametrize(
    ("start", "steps", "version"),
    [("v0", 1, "v1"), ("v9", 3, "v12"), ("run2-v5", 0, "run2-v5"), ("smollm", 0, "smollm"), ("smollm", 2, "smollm+2")],
)
def test_versions_count_optimizer_steps(start: str, steps: int, version: str) -> None:
    assert version_after(start, steps) == version


def test_an_output_folder_of_other_weights_is_refused(tmp_path: Path) -> None:
    first = write_tiny_weights(tmp_path / "first", version="v0")
    second = write_tiny_weights(tmp_path / "second", version="other")
    Learner(first, tmp_path / "out", FAST).step(BATCH)
    with pytest.raises(ValueError, match="began from version 'v0'; expected the weights' 'other'"):
        Learner(second, tmp_path / "out", FAST)


def test_adapters_train_alone_resume_and_are_merged_into_a_version(weights: Path, tmp_path: Path) -> None:
    experiment = FAST.model_copy(update={"lora_rank": 2})
    learner = Learner(weights, tmp_path / "out", experiment)
    for _ in range(3):
        learner.step(BATCH)
    saved = load_file(tmp_path / "out/checkpoints/step-00000003/trainable.safetensors")
    assert all("lora" in name for name in saved)
    turns = turns_of(BATCH)
    again = Learner(weights, tmp_path / "out", experiment)
    assert again.score(turns) == learner.score(turns)
    merged = Learner(write_folder_as_start(learner.save_version()), tmp_path / "merged", FAST)
    for mine, theirs in zip(learner.score(turns), merged.score(turns), strict=True):
        assert mine == pytest.approx(theirs, abs=1e-4)


def write_folder_as_start(folder: Path) -> Path:
    load_weights(folder)
    return folder


@pytest.mark.parametrize("change", [{"activation_checkpointing": True}, {"pack_tokens": 20}])
def test_what_saves_memory_does_not_change_the_step(weights: Path, tmp_path: Path, change: dict[str, object]) -> None:
    plain = Learner(weights, tmp_path / "plain", FAST).step(BATCH)
    saving = Learner(weights, tmp_path / "saving", FAST.model_copy(update=change)).step(BATCH)
    assert saving.loss == pytest.approx(plain.loss, rel=1e-5)
    assert saving.gradient_norm == pytest.approx(plain.gradient_norm, rel=1e-4)


def test_bfloat16_is_close_to_float32(weights: Path, tmp_path: Path) -> None:
    experiment = FAST.model_copy(update={"dtype": "bfloat16"})
    full = Learner(weights, tmp_path / "full", FAST)
    learner = Learner(weights, tmp_path / "out", experiment)
    batch = on_policy(full, BATCH)
    plain = full.step(batch)
    half = learner.step(batch)
    assert half.loss == pytest.approx(plain.loss, abs=0.05)
    assert half.gradient_norm == pytest.approx(plain.gradient_norm, rel=0.1)


def test_an_engine_that_serves_something_else_is_reported(
    weights: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    learner = Learner(weights, tmp_path / "out", FAST)
    learner.step(on_policy(learner, BATCH))
    assert not caplog.records
    learner.step(BATCH)
    assert "engine and trainer differ by" in caplog.text


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ((), "batch: held no sampled tokens"),
        ((random_trajectory(0, turns=200),), r"batch\[0\]: \d+ tokens in one context; expected at most 512"),
    ],
)
def test_a_batch_that_cannot_be_trained_on_is_refused(
    weights: Path, tmp_path: Path, batch: tuple[CreditedTrajectory, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Learner(weights, tmp_path / "out", FAST).step(batch)


def test_a_token_that_the_policy_does_not_have_is_refused(weights: Path, tmp_path: Path) -> None:
    credited = random_trajectory(0, turns=1)
    turn = replace(credited.trajectory.turns[0], token_ids=(16,), logprobs=(-1.0,))
    credit = replace(credited.credit, turns=(TurnCredit(advantage=1.0, token_advantages=None),))
    strange = CreditedTrajectory(trajectory=replace(credited.trajectory, turns=(turn,)), credit=credit)
    with pytest.raises(ValueError, match=r"batch\[0\]: token id 16; expected 0 to 15"):
        Learner(weights, tmp_path / "out", FAST).step([strange])


def test_scoring_answers_a_turn_without_tokens_with_none(weights: Path, tmp_path: Path) -> None:
    learner = Learner(weights, tmp_path / "out", FAST)
    empty = Turn(observation="", text="", action=None, context_token_ids=(1,), token_ids=())
    assert learner.score([empty]) == [()]
    with pytest.raises(ValueError, match=r"turns\[0\]\.token_ids: was absent"):
        learner.score([replace(empty, token_ids=None)])


def test_an_experiment_with_an_unknown_key_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text("learning_rat = 0.1\n")
    with pytest.raises(ValueError, match="learning_rat"):
        read_learner_experiment(path)
    path.write_text('learning_rate = 0.1\nratio = "trainer"\n')
    assert read_learner_experiment(path) == LearnerExperiment(learning_rate=0.1, ratio="trainer")


def test_weights_without_a_version_are_refused(weights: Path, tmp_path: Path) -> None:
    (weights / "prover.json").write_text(json.dumps({"model": "tiny"}))
    with pytest.raises(ValueError, match=r"prover\.json: was .*; expected"):
        Learner(weights, tmp_path / "out", FAST)
