"""Trains the shipped policy by behaviour cloning: `python -m services.engine.train_policy --out FOLDER`.

Plays demonstrations on generated games, learns a tokenizer from them, fits a small Llama to the searcher's commands.
Everything is drawn from fixed seeds of TRAIN_SEEDS; evaluation uses TEST_SEEDS.

Dimensions: B transcripts, T tokens, V vocabulary.
"""

import json
import logging
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.utils.logging import disable_progress_bar

from prover.environments.alfworld.generate import TASK_TYPES, TRAIN_SEEDS
from services.engine.demonstrations import Piece, Recipe, demonstrate, encode, vocabulary_texts
from services.engine.tokenizer import train_tokenizer

MAX_CONTEXT = 2048

_READ = 0.2
"""The share of the tokens that are only read whose prediction is part of a step's loss."""

log = logging.getLogger("train_policy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """What is tried.

    Attributes:
        games: demonstrations in all; each is seen `passes` times.
        shares: how much of them is of each task type.
        step_tokens: tokens of one optimizer step, padding included.
        reading_weight: weight in the loss of tokens that the policy only reads, where its own weigh 1. Predicting
            the game's answers teaches it to copy names long before imitation alone would.
        softness: the temperature that is built into the finished policy. What imitation gives is close to all or
            nothing (README.md has the figures); a softer policy has some successes in nearly every group.
    """

    games: int = 20_000
    passes: int = 1
    recipe: Recipe = field(default_factory=Recipe)
    shares: Mapping[str, float] = field(
        default_factory=lambda: (
            dict.fromkeys(TASK_TYPES, 1.0) | {"pick_and_place_simple": 2.0, "pick_heat_then_place_in_recep": 2.0}
        )
    )
    step_tokens: int = 4096
    learning_rate: float = 3e-3
    warmup_steps: int = 100
    reading_weight: float = 0.1
    hidden_size: int = 128
    layers: int = 4
    heads: int = 4
    softness: float = 1.5
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """A demonstration in tokens; `weights` are those of each token in the loss."""

    token_ids: Tensor
    weights: Tensor


def main(
    out: Annotated[Path, typer.Option(help="folder for the weights")],
    games: Annotated[int, typer.Option(help="demonstrations")] = Training().games,
    passes: Annotated[int, typer.Option(help="times each is seen")] = Training().passes,
    threads: Annotated[int, typer.Option(help="torch threads, and processes that play")] = 2,
) -> None:
    """Plays, trains, and writes the folder that the engine serves."""
    logging.basicConfig(level="INFO", format="%(asctime)s %(message)s")
    disable_progress_bar()
    torch.set_num_threads(threads)
    training = Training(games=games, passes=passes)
    started = time.monotonic()
    pieces = play(training, processes=threads)
    tokenizer = train_tokenizer([*vocabulary_texts(), *(piece.text for game in pieces[:4000] for piece in game)])
    transcripts = [_transcript(game, tokenizer, training) for game in pieces]
    log.info("%d games, %.0f s", len(transcripts), time.monotonic() - started)
    torch.manual_seed(training.seed)
    model = make_model(training, tokenizer)
    fit(model, transcripts, training)
    soften(model, training.softness)
    save(model, tokenizer, out)
    log.info("done in %.0f s", time.monotonic() - started)


def play(training: Training, *, processes: int) -> list[list[Piece]]:
    """All demonstrations, shuffled; the same whatever the number of processes."""
    rng = random.Random(training.seed)
    types = rng.choices(list(training.shares), weights=list(training.shares.values()), k=training.games)
    seeds = rng.sample(TRAIN_SEEDS, training.games)
    jobs = [(task_type, seed, training.recipe) for task_type, seed in zip(types, seeds, strict=True)]
    with get_context("spawn").Pool(processes) as pool:
        return pool.starmap(demonstrate, jobs, chunksize=100)


def make_model(training: Training, tokenizer: Tokenizer) -> LlamaForCausalLM:
    """A Llama with random weights. A line feed ends its answers, wherever it is served."""
    config = LlamaConfig(
        vocab_size=-(-tokenizer.get_vocab_size() // 32) * 32,
        hidden_size=training.hidden_size,
        intermediate_size=training.hidden_size * 8 // 3 // 32 * 32,
        num_hidden_layers=training.layers,
        num_attention_heads=training.heads,
        num_key_value_heads=training.heads,
        max_position_embeddings=MAX_CONTEXT,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.encode("\n", add_special_tokens=False).ids[0],
        pad_token_id=0,
    )
    return LlamaForCausalLM(config)


def fit(model: LlamaForCausalLM, transcripts: Sequence[Transcript], training: Training) -> None:
    """One optimizer step a batch; the rate rises, then falls to zero in a straight line."""
    batches = [batch for index in range(training.passes) for batch in _batches(transcripts, training, epoch=index)]
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=training.learning_rate, betas=(0.9, 0.95), weight_decay=0.01, fused=True
    )
    model.train()
    for step, batch in enumerate(batches):
        rate = min((step + 1) / training.warmup_steps, (len(batches) - step) / len(batches))
        for group in optimizer.param_groups:
            group["lr"] = training.learning_rate * rate
        loss, imitation = _loss(model, batch)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 0 or step + 1 == len(batches):
            log.info("step %d of %d: %.4f nats a command token", step, len(batches), imitation)


@torch.no_grad()
def soften(model: LlamaForCausalLM, softness: float) -> None:
    """Divides the logits of every answer from now on: they are linear in the gain of the last norm."""
    model.model.norm.weight.div_(softness)


def save(model: LlamaForCausalLM, tokenizer: Tokenizer, out: Path) -> None:
    """Weights in bfloat16: half the size, and no worse at sampling."""
    model.to(torch.bfloat16).save_pretrained(out)  # pyright: ignore[reportCallIssue, reportArgumentType]
    tokenizer.save(str(out / "tokenizer.json"))
    # Weights are for whoever runs the engine to read, not only for whoever trained them.
    (out / "model.safetensors").chmod(0o644)
    (out / "prover.json").write_text(json.dumps({"version": "v0", "model": "alfworld"}) + "\n")


def _transcript(game: Sequence[Piece], tokenizer: Tokenizer, training: Training) -> Transcript:
    token_ids, imitate = encode(game, tokenizer)
    weights = torch.where(torch.tensor(imitate), 1.0, training.reading_weight)
    return Transcript(token_ids=torch.tensor(token_ids)[:MAX_CONTEXT], weights=weights[:MAX_CONTEXT])


def _batches(transcripts: Sequence[Transcript], training: Training, *, epoch: int) -> list[list[Transcript]]:
    """Transcripts of like length together, as many as fit; the batches in random order."""
    rng = random.Random(training.seed + epoch)
    order = sorted(transcripts, key=lambda transcript: len(transcript.token_ids) * rng.uniform(0.95, 1.05))
    batches = list(_packed(order, training.step_tokens))
    rng.shuffle(batches)
    return batches


def _packed(order: Sequence[Transcript], step_tokens: int) -> Iterator[list[Transcript]]:
    batch: list[Transcript] = []
    for transcript in order:
        longest = max(len(each.token_ids) for each in [*batch, transcript])
        if batch and longest * (len(batch) + 1) > step_tokens:
            yield batch
            batch = []
        batch.append(transcript)
    yield batch


def _loss(model: LlamaForCausalLM, batch: Sequence[Transcript]) -> tuple[Tensor, float]:
    """The weighted mean over all tokens, and the plain mean over imitated ones."""
    ids_BT = torch.nn.utils.rnn.pad_sequence([each.token_ids for each in batch], batch_first=True)
    weights_BT = torch.nn.utils.rnn.pad_sequence([each.weights for each in batch], batch_first=True)[:, 1:]
    # Reading tokens are many and alike: a fifth of them, weighing five times as much, saves most of the output layer.
    kept_BT = (weights_BT == 1.0) | (torch.rand(weights_BT.shape) < _READ)
    weights = torch.where(weights_BT == 1.0, 1.0, weights_BT / _READ)[kept_BT]
    with torch.autocast("cpu", torch.bfloat16):
        # Causal attention and padding at the end: no token ever sees a padded one, so no mask is needed.
        output: Any = model.model(input_ids=ids_BT, use_cache=False)
        logits = model.lm_head(output.last_hidden_state[:, :-1][kept_BT])
    losses = functional.cross_entropy(logits.float(), ids_BT[:, 1:][kept_BT], reduction="none")
    imitation = losses.detach()[weights == 1.0].mean().item()
    return (losses * weights).sum() / weights.sum(), imitation


if __name__ == "__main__":
    typer.run(main)
