"""A policy with random weights that fits into a test: a weights folder, and trajectories with its own tokens."""

import json
from pathlib import Path

import numpy as np
import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

from prover.trajectory import CreditedTrajectory, Task, Trajectory, TrajectoryCredit, Turn, TurnCredit

VOCABULARY = ("\n", ">", "go", "take", "put", "desk", "shelf", "mug", "1", "2", "You", "see", " ", ".", ",", "?")
MAX_CONTEXT = 512
TASK = Task(environment="corridor", task_id="corridor")


def write_tiny_weights(folder: Path, *, seed: int = 0, version: str = "v0", dtype: str = "float32") -> Path:
    """A Llama of 2 layers: the same seed, the same weights."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=MAX_CONTEXT,
        initializer_range=0.3,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
    )
    LlamaForCausalLM(config).to(getattr(torch, dtype)).save_pretrained(folder)
    words = models.WordLevel({word: index for index, word in enumerate(VOCABULARY)}, unk_token="?")
    tokenizer = Tokenizer(words)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[A-Za-z]+|[0-9]|\n|."), "isolated")
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "prover.json").write_text(json.dumps({"version": version, "model": "tiny"}))
    return folder


def random_trajectory(
    seed: int, *, turns: int = 3, append_only: bool = True, advantage: float | None = None, version: str = "v0"
) -> CreditedTrajectory:
    """Random tokens with random log-probabilities and, where `advantage` is None, random advantages per token."""
    draw = np.random.default_rng(seed)

    def ids(least: int, most: int) -> tuple[int, ...]:
        return tuple(map(int, draw.integers(0, len(VOCABULARY), draw.integers(least, most))))

    context = ids(3, 12)
    made: list[Turn] = []
    credits: list[TurnCredit] = []
    for _ in range(turns):
        sampled = ids(1, 6)
        made.append(
            Turn(
                observation="",
                text="",
                action="go",
                context_token_ids=context,
                token_ids=sampled,
                logprobs=tuple(map(float, -draw.uniform(1.5, 4.0, len(sampled)))),
            )
        )
        values = tuple(map(float, draw.normal(size=len(sampled)))) if advantage is None else (advantage,) * len(sampled)
        credits.append(TurnCredit(advantage=values[0], token_advantages=values))
        context = (*context, *sampled, *ids(1, 6)) if append_only else ids(3, 12)
    trajectory = Trajectory(
        id=f"t{seed}", task=TASK, policy_version=version, turns=tuple(made), reward=0.0, success=False
    )
    credit = TrajectoryCredit(trajectory_id=trajectory.id, group_advantage=0.0, turns=tuple(credits))
    return CreditedTrajectory(trajectory=trajectory, credit=credit)
