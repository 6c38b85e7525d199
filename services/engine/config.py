"""Where the engine listens, what it serves and how much it may use. Read from the environment in `__main__` only."""

from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

SHIPPED_WEIGHTS = Path(__file__).parent / "weights" / "alfworld"


class EngineSettings(BaseSettings):
    """`PROVER_ENGINE_PORT=9000` and so on.

    Attributes:
        host: address to listen on.
        port: 0 takes a free one; the log names it.
        weights: a folder with config.json, model.safetensors, tokenizer.json and (for its version) prover.json.
        dtype: what the weights are computed in. Sampling is float32 always.
        threads: torch threads of the forward pass.
        max_batch: most sequences that are decoded together.
        max_waiting: most sequences that wait for a place; more are answered 503.
        max_step_tokens: most tokens of one forward pass, which bounds how long prompts hold up decoding.
        cache_mib: most memory for the keys and values of finished sequences, in MiB. Running ones come on top:
            at most max_batch times the longest context.
        log_level: of the Python logging module.
    """

    model_config = SettingsConfigDict(env_prefix="PROVER_ENGINE_", extra="forbid")

    host: str = "127.0.0.1"
    port: int = Field(default=8100, ge=0, le=65535)
    weights: Path = SHIPPED_WEIGHTS
    dtype: Literal["float32", "bfloat16"] = "float32"
    threads: int = Field(default=1, ge=1)
    max_batch: int = Field(default=32, ge=1)
    max_waiting: int = Field(default=512, ge=0)
    max_step_tokens: int = Field(default=512, ge=1)
    cache_mib: int = Field(default=512, ge=0)
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
