"""Where the rollout service listens and what it samples from. Read from the environment in `__main__` only."""

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from prover.rpc.settings import Tls


class RolloutSettings(BaseSettings):
    """`PROVER_ROLLOUT_PORT=9001` and so on; the addresses of policy engines are PROVER_POLICY_URLS, as everywhere.

    Attributes:
        host: address to listen on.
        port: 0 takes a free one; the log names it.
        policy_urls: "name=http://host:port,...".
        policy: which of them to sample from; empty takes the first.
        policy_api_key: sent to it as a bearer token (PROVER_POLICY_API_KEY).
        max_concurrent: most episodes at a time, over all calls; more wait.
        metrics_port: where Prometheus reads; 0 is nowhere.
        tls_authority: PEM file; with it, clients need a certificate.
        tls_certificate: PEM file; with it and the key the server speaks TLS.
        tls_key: PEM file.
        log_level: of the Python logging module.
    """

    model_config = SettingsConfigDict(env_prefix="PROVER_ROLLOUT_", extra="forbid")

    host: str = "127.0.0.1"
    port: int = Field(default=8201, ge=0, le=65535)
    policy_urls: str = Field(default="embedded=http://127.0.0.1:8100", validation_alias="PROVER_POLICY_URLS")
    policy: str = ""
    policy_api_key: SecretStr = Field(default=SecretStr(""), validation_alias="PROVER_POLICY_API_KEY")
    max_concurrent: int = Field(default=64, ge=1)
    metrics_port: int = Field(default=0, ge=0, le=65535)
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
