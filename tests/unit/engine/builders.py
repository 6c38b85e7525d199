"""The smallest policy that the engine can serve: random weights, a tokenizer of whole words."""

import json
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

from services.engine.batch import Batch
from services.engine.engine import Engine
from services.engine.weights import Weights, load_weights

MAX_CONTEXT = 256
WORDS = ("\n", ">", " go", " to", " desk", " shelf", " 1", " 2", "You", " see", " a", ".", "<unk>")
STOP = WORDS.index("\n")


def write_weights(folder: Path, *, seed: int = 0, version: str = "v0", layers: int = 2) -> Path:
    """Writes random weights of a small Llama: the same seed, the same weights."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(WORDS),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=MAX_CONTEXT,
        initializer_range=0.4,  # far enough from uniform that a wrong key or value shows
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r" ?[A-Za-z]+| ?[0-9]+|\n|[^A-Za-z0-9\n]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "prover.json").write_text(json.dumps({"version": version, "model": "tiny"}))
    return folder


def weights(folder: Path, *, seed: int = 0, version: str = "v0") -> Weights:
    """The same, loaded."""
    return load_weights(write_weights(folder, seed=seed, version=version))


def batch(of: Weights, *, max_batch: int = 8, max_step_tokens: int = 64, cache_bytes: int = 2**24) -> Batch:
    """A batch with room for a few sequences."""
    return Batch(of, max_batch=max_batch, max_step_tokens=max_step_tokens, cache_bytes=cache_bytes)


def engine(of: Weights, *, max_batch: int = 8, max_in_flight: int = 64) -> Engine:
    """An engine over such a batch, not started."""
    return Engine(batch(of, max_batch=max_batch), max_in_flight=max_in_flight)
