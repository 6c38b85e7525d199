"""A folder of weights, read and checked as a whole before anything serves it."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError
from tokenizers import Tokenizer
from transformers import LlamaConfig, LlamaForCausalLM

MANIFEST = "prover.json"


class Manifest(BaseModel):
    """`prover.json` beside the weights: what they are. Whoever publishes weights writes it.

    Attributes:
        version: names these weights and no others, such as "v0".
        model: the name that the engine serves them under; the same for all versions of one policy.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    version: str
    model: str = "prover-policy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """One version of the policy, ready to run.

    Attributes:
        max_context: most tokens of prompt and answer together.
        end_ids: tokens that end every answer, beside those that a request names.
    """

    model: LlamaForCausalLM
    tokenizer: Tokenizer
    name: str
    version: str
    max_context: int
    end_ids: frozenset[int]


class WeightsError(ValueError):
    """The folder does not hold weights that this engine can serve. Says which file and why."""


def load_weights(folder: Path, *, dtype: torch.dtype = torch.float32, tokenizer: Tokenizer | None = None) -> Weights:
    """Reads a folder. Nothing is executed from it: safetensors and JSON only.

    A new version of weights that are being served already passes the `tokenizer` of those: the folder may then leave
    its own out, and if it has one, it must be the same, since contexts of token ids outlive the change.

    Raises WeightsError.
    """
    manifest = _read_manifest(folder)
    config = _read_config(folder)
    try:
        model: Any = LlamaForCausalLM.from_pretrained(str(folder), dtype=dtype, use_safetensors=True)
    except (OSError, RuntimeError, ValueError, SafetensorError) as error:
        raise WeightsError(f"{folder}: model.safetensors: {error}") from error
    return Weights(
        model=model.eval(),
        tokenizer=_read_tokenizer(folder, current=tokenizer),
        name=manifest.model,
        version=manifest.version,
        max_context=int(config.max_position_embeddings),
        end_ids=frozenset(_as_ids(config.eos_token_id)),
    )


def _read_manifest(folder: Path) -> Manifest:
    path = folder / MANIFEST
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except OSError as error:
        raise WeightsError(f"{path}: was not readable ({error.strerror}); expected the weights' version") from error
    except ValidationError as error:
        raise WeightsError(f'{path}: {error}; expected {{"version": "v0", "model": "NAME"}}') from error


def _read_config(folder: Path) -> LlamaConfig:
    path = folder / "config.json"
    if not path.is_file():
        raise WeightsError(f"{path}: was not there; expected the config of a Llama model")
    config: Any = LlamaConfig.from_pretrained(str(folder))
    if config.to_dict().get("architectures") not in (None, ["LlamaForCausalLM"]):
        raise WeightsError(f"{path}: architectures: was {config.architectures}; expected ['LlamaForCausalLM']")
    return config


def _read_tokenizer(folder: Path, *, current: Tokenizer | None) -> Tokenizer:
    path = folder / "tokenizer.json"
    if not path.is_file():
        if current is None:
            raise WeightsError(f"{path}: was not there; expected the tokenizer of these weights")
        return current
    tokenizer = Tokenizer.from_file(str(path))
    if current is not None and tokenizer.to_str() != current.to_str():
        raise WeightsError(f"{path}: differs from the tokenizer in use; expected the same, contexts outlive weights")
    return tokenizer


def _as_ids(value: int | Iterable[int] | None) -> tuple[int, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, int) else tuple(value)
