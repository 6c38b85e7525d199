"""Where the judge service listens, and the model that `llm` asks. Read from the environment in `__main__` only."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from prover.rpc.settings import Tls
from services.judge.interview import Prices
from services.judge.llm import Endpoint
from services.judge.question import ProposeLimits

_LIMITS = ProposeLimits()
"""What a group may use where nothing is set."""


class JudgeSettings(BaseSettings):
    """`PROVER_JUDGE_PORT=9002` and so on.

    Attributes:
        host: address to listen on.
        port: 0 takes a free one; the log names it.
        metrics_port: where Prometheus reads; 0 is nowhere.
        timeout_s: seconds that a judge may take for one group; the caller's deadline may leave less.
        threads: groups that are worked on at once; the rest waits within its deadlines. Waiting for a model needs none.
        tls_authority: PEM file; with it, clients need a certificate.
        tls_certificate: PEM file; with it and the key the server speaks TLS.
        tls_key: PEM file.
        log_level: of the Python logging module.
    """

    model_config = SettingsConfigDict(env_prefix="PROVER_JUDGE_", extra="forbid")

    host: str = "127.0.0.1"
    port: int = Field(default=8200, ge=0, le=65535)
    metrics_port: int = Field(default=0, ge=0, le=65535)
    timeout_s: float = Field(default=_LIMITS.timeout_s, gt=0)
    threads: int = Field(default=2, ge=1)
    tls_authority: Path | None = None
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"

    @property
    def tls(self) -> Tls | None:
        """None where no certificate is set."""
        if self.tls_certificate is None:
            return None
        return Tls(authority=self.tls_authority, certificate=self.tls_certificate, key=self.tls_key)


class LlmSettings(BaseSettings):
    """`PROVER_JUDGE_LLM_URL=http://127.0.0.1:8001/v1` and so on. Without an address there is no `llm` judge.

    Attributes:
        url: of an OpenAI-compatible server, "/v1" included.
        model: a name that the server has.
        api_key: sent as bearer token.
        protocol: "native" tool calls, "text", or "auto".
        context_tokens: how much the model can read and write at once.
        reply_tokens: most tokens of one reply, thinking included.
        temperature: the server's own where it is not set.
        input_usd: US dollars for a million tokens read; with `output_usd`, costs are counted.
        output_usd: US dollars for a million tokens written.
        max_cost_usd: most US dollars for one group; it needs both prices. No limit where it is not set.
        max_model_calls: most requests to the model for one group, repairs included.
        max_tokens: most tokens for one group, read and written by all its requests.
        max_repairs: how often an invalid answer is sent back with the reason.
    """

    model_config = SettingsConfigDict(env_prefix="PROVER_JUDGE_LLM_", extra="forbid")

    url: str = ""
    model: str = ""
    api_key: SecretStr = SecretStr("")
    protocol: Literal["auto", "native", "text"] = "auto"
    context_tokens: int = 32_768
    reply_tokens: int = 1_024
    temperature: float | None = None
    input_usd: float | None = Field(default=None, ge=0)
    output_usd: float | None = Field(default=None, ge=0)
    max_cost_usd: float | None = Field(default=None, gt=0)
    max_model_calls: int = Field(default=_LIMITS.max_model_calls, ge=1)
    max_tokens: int = Field(default=_LIMITS.max_tokens, ge=1)
    max_repairs: int = Field(default=_LIMITS.max_repairs, ge=0)

    @model_validator(mode="after")
    def _a_cost_limit_needs_prices(self) -> Self:
        if self.max_cost_usd is not None and (self.input_usd is None or self.output_usd is None):
            raise ValueError(f"max_cost_usd: was {self.max_cost_usd} without prices; expected input_usd and output_usd")
        return self

    def limits(self, *, timeout_s: float) -> ProposeLimits:
        """What one group may use, whoever asks."""
        return ProposeLimits(
            max_cost_usd=self.max_cost_usd,
            max_model_calls=self.max_model_calls,
            max_tokens=self.max_tokens,
            max_repairs=self.max_repairs,
            timeout_s=timeout_s,
        )

    @property
    def endpoint(self) -> Endpoint | None:
        """None where no address is set. ValueError names what does not fit."""
        if not self.url:
            return None
        priced = self.input_usd is not None and self.output_usd is not None
        return Endpoint(
            url=self.url,
            model=self.model,
            api_key=self.api_key.get_secret_value(),
            protocol=self.protocol,
            context_tokens=self.context_tokens,
            reply_tokens=self.reply_tokens,
            temperature=self.temperature,
            prices=Prices(input_usd=self.input_usd or 0.0, output_usd=self.output_usd or 0.0) if priced else None,
        )
