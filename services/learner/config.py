"""Where the learner is and what it works on. Read from the environment in `__main__` only. What is tried in training
is an experiment: see prover/training/learner_experiment.py.

Two more than ten settings: TLS is three.
"""

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from prover.rpc.settings import Tls

SHIPPED_WEIGHTS = Path(__file__).parents[1] / "engine" / "weights" / "alfworld"


class LearnerSettings(BaseSettings):
    """`PROVER_LEARNER_PORT=9001` and so on; the addresses of policy engines are PROVER_POLICY_URLS, as everywhere.
    One that is empty is as good as none.

    Attributes:
        host: address to listen on.
        port: 0 takes a free one; the log names it.
        weights: folder of the weights that training starts from.
        output_dir: folder for checkpoints and versions. The engine must be able to read it. Training goes on from the
            newest checkpoint in it.
        experiment: a TOML file; none is the defaults.
        policy_urls: "name=http://host:port,...".
        policy: which of them to publish to; empty takes the first.
        policy_api_key: sent to it as a bearer token (PROVER_POLICY_API_KEY).
        metrics_port: where Prometheus reads; 0 is nowhere.
        tls_authority: PEM file; with it, clients need a certificate.
        tls_certificate: PEM file; with it and the key the server speaks TLS.
        tls_key: PEM file.
        log_level: of the Python logging module.
    """

    model_config = SettingsConfigDict(env_prefix="PROVER_LEARNER_", extra="forbid", env_ignore_empty=True)

    host: str = "127.0.0.1"
    port: int = Field(default=8202, ge=0, le=65535)
    weights: Path = SHIPPED_WEIGHTS
    output_dir: Path = Path(".prover/weights")
    experiment: Path | None = None
    policy_urls: str = Field(default="embedded=http://127.0.0.1:8100", validation_alias="PROVER_POLICY_URLS")
    policy: str = ""
    policy_api_key: SecretStr = Field(default=SecretStr(""), validation_alias="PROVER_POLICY_API_KEY")
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


class RankSettings(BaseSettings):
    """Which of several processes this one is: what torchrun sets. MASTER_ADDR and MASTER_PORT, its too, say where they
    meet.

    Attributes:
        rank: number among all processes; 0 serves.
        world_size: how many there are.
        local_rank: number among those of this machine, which is that of its GPU.
    """

    model_config = SettingsConfigDict(extra="ignore")

    rank: int = Field(default=0, ge=0)
    world_size: int = Field(default=1, ge=1)
    local_rank: int = Field(default=0, ge=0)
