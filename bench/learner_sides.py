"""The two sides of bench.learner: each waits for a line, takes one optimizer step, and answers what it cost.

The trajectories have the shape of ALFWorld's: an opening, then 5 to 40 turns of a short command and a longer
observation. Their log-probabilities are the model's own, so that both losses are those of an on-policy batch.
"""

import json
import os
import resource
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import torch

from bench.learner_answers import MARK
from prover.training.learner_experiment import LearnerExperiment
from prover.trajectory import CreditedTrajectory, Task, Trajectory, TrajectoryCredit, Turn, TurnCredit
from services.learner.learner import Learner

LEARNING_RATE = 1e-4


def draw_batch(learner: Learner, *, trajectories: int, vocabulary: int, seed: int) -> list[CreditedTrajectory]:
    """Append-only trajectories with an advantage of their own each."""
    draw = np.random.default_rng(seed)

    def ids(least: int, most: int) -> tuple[int, ...]:
        return tuple(map(int, draw.integers(0, vocabulary, draw.integers(least, most + 1))))

    batch: list[CreditedTrajectory] = []
    for number in range(trajectories):
        context, turns = ids(120, 200), list[Turn]()
        for _ in range(int(draw.integers(5, 41))):
            sampled = ids(3, 9)
            turns.append(Turn(observation="", text="", action="", context_token_ids=context, token_ids=sampled))
            context = (*context, *sampled, *ids(10, 40))
        scored = learner.score(turns)
        turns = [replace(turn, logprobs=logprobs) for turn, logprobs in zip(turns, scored, strict=True)]
        trajectory = Trajectory(
            id=str(number),
            task=Task(environment="synthetic", task_id=str(seed)),
            policy_version="v0",
            turns=tuple(turns),
            reward=0.0,
            success=False,
        )
        advantage = float(draw.normal())
        credits = tuple(TurnCredit(advantage=advantage, token_advantages=None) for _ in turns)
        credit = TrajectoryCredit(trajectory_id=str(number), group_advantage=advantage, turns=credits)
        batch.append(CreditedTrajectory(trajectory=trajectory, credit=credit))
    return batch


class Meter:
    """Answers one line for each step."""

    def __init__(self) -> None:
        self._begun = 0.0
        self._memory_before = 0.0

    def ready(self) -> None:
        """Everything is built: memory counts from here."""
        self._memory_before = peak_mib()
        answer({})

    def wait(self) -> None:
        """Until the next step is asked for."""
        if not sys.stdin.readline():
            os._exit(0)
        self._begun = process_time()

    def done(self, *, loss: float, gradient_norm: float, sampled_tokens: int) -> None:
        """The step was taken."""
        seconds = process_time() - self._begun
        answer(
            {
                "seconds": seconds,
                "memory_mib": peak_mib() - self._memory_before,
                "loss": loss,
                "gradient_norm": gradient_norm,
                "sampled_tokens": sampled_tokens,
            }
        )


def peak_mib() -> float:
    """Most resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def answer(values: dict[str, float]) -> None:
    """One line."""
    sys.stdout.write(f"{MARK}{json.dumps(values)}\n")
    sys.stdout.flush()


def run_ours(learner: Learner, batch: Sequence[CreditedTrajectory]) -> None:
    """A learner that writes no checkpoint between the steps: TRL writes none either."""
    meter = Meter()
    meter.ready()
    while True:
        meter.wait()
        metrics = learner.step(batch)
        meter.done(loss=metrics.loss, gradient_norm=metrics.gradient_norm, sampled_tokens=metrics.sampled_tokens)


def run_trl(weights: Path, output: Path, batch: Sequence[CreditedTrajectory], *, micro_batch: int) -> None:
    """GRPOTrainer with the method's loss: token-level normalisation, no KL, the clips of our defaults."""
    # The yardstick is an extra of its own: the type check must pass with and without it.
    from datasets import Dataset  # pyright: ignore[reportMissingImports]
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, TrainerCallback
    from trl.trainer.grpo_config import GRPOConfig  # pyright: ignore[reportMissingImports]
    from trl.trainer.grpo_trainer import GRPOTrainer  # pyright: ignore[reportMissingImports]

    tensors = padded(batch)
    meter = Meter()

    class Fed(GRPOTrainer):  # pyright: ignore[reportUntypedBaseClass]
        """Takes the batch instead of sampling one."""

        def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
            return {name: tensor.clone() for name, tensor in tensors.items()}

    class Report(TrainerCallback):
        """Times each step; the trainer's log has its loss."""

        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            meter.wait()

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            if "grad_norm" in logs:
                tokens = int(tensors["tool_mask"].sum())
                meter.done(loss=float(logs["loss"]), gradient_norm=float(logs["grad_norm"]), sampled_tokens=tokens)

    args = GRPOConfig(
        output_dir=str(output),
        per_device_train_batch_size=micro_batch,
        gradient_accumulation_steps=len(batch) // micro_batch,
        num_generations=len(batch),
        max_steps=1_000_000,
        learning_rate=LEARNING_RATE,
        lr_scheduler_type="constant",
        adam_beta2=0.95,
        max_grad_norm=1.0,
        beta=0.0,
        epsilon=0.2,
        epsilon_high=0.28,
        loss_type="dapo",
        gradient_checkpointing=False,
        bf16=False,
        use_cpu=True,
        save_strategy="no",
        report_to=[],
        logging_steps=1,
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    trainer = Fed(
        model=AutoModelForCausalLM.from_pretrained(str(weights), dtype=torch.float32),
        reward_funcs=no_reward,
        args=args,
        train_dataset=Dataset.from_list([{"prompt": "x"}] * 64),
        processing_class=PreTrainedTokenizerFast(
            tokenizer_file=str(weights / "tokenizer.json"), pad_token="<pad>", eos_token="<eos>"
        ),
        callbacks=[Report()],
    )
    meter.ready()
    trainer.train()


def no_reward(completions: Sequence[object], **_: object) -> list[float | None]:
    """Never asked: the batch comes with its advantages."""
    return [0.0] * len(completions)


def padded(batch: Sequence[CreditedTrajectory]) -> dict[str, torch.Tensor]:
    """The batch as TRL holds it: openings padded on the left, the rest on the right, sampled tokens marked."""
    openings, rests, masks, advantages, logprobs = [], [], [], [], []
    for credited in batch:
        turns = credited.trajectory.turns
        opening = turns[0].context_token_ids or ()
        whole = (*(turns[-1].context_token_ids or ()), *(turns[-1].token_ids or ()))
        mask, sampling = np.zeros(len(whole)), np.zeros(len(whole))
        for turn in turns:
            start = len(turn.context_token_ids or ())
            mask[start : start + len(turn.token_ids or ())] = 1
            sampling[start : start + len(turn.token_ids or ())] = turn.logprobs or ()
        openings.append(opening)
        rests.append(whole[len(opening) :])
        masks.append(mask[len(opening) :])
        logprobs.append(sampling[len(opening) :])
        advantages.append(credited.credit.turns[0].advantage)
    width = max(map(len, openings))
    return {
        "prompt_ids": torch.tensor([[0] * (width - len(ids)) + list(ids) for ids in openings]),
        "prompt_mask": torch.tensor([[0] * (width - len(ids)) + [1] * len(ids) for ids in openings]),
        "completion_ids": _right(rests).long(),
        "completion_mask": _right([[1] * len(ids) for ids in rests]).long(),
        "tool_mask": _right(masks).long(),
        "old_per_token_logps": _right(logprobs),
        "advantages": torch.tensor(advantages, dtype=torch.float32),
        "num_items_in_batch": torch.tensor(float(sum(mask.sum() for mask in masks))),
    }


def _right(rows: Sequence[Any]) -> torch.Tensor:
    width = max(map(len, rows))
    return torch.tensor(np.array([[*row, *[0] * (width - len(row))] for row in rows]), dtype=torch.float32)


def main() -> None:
    """Arguments: side, weights, output, trajectories, seed."""
    side, weights, output, trajectories, seed = sys.argv[1:]
    torch.set_num_threads(1)
    experiment = LearnerExperiment(learning_rate=LEARNING_RATE, checkpoint_every=1_000_000)
    learner = Learner(Path(weights), Path(output), experiment)
    vocabulary = json.loads((Path(weights) / "config.json").read_text())["vocab_size"]
    batch = draw_batch(learner, trajectories=int(trajectories), vocabulary=vocabulary, seed=int(seed))
    if side == "ours":
        run_ours(learner, batch)
    else:
        micro_batch = len(batch) if side == "trl whole batch" else 1
        run_trl(Path(weights), Path(output), batch, micro_batch=micro_batch)


if __name__ == "__main__":
    main()
