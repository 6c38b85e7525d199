"""Where things are and how much is done at a time. Read from the environment in `__main__` only."""

from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class VerifierSettings(BaseSettings):
    """`PROVER_VERIFIER_CONCURRENCY=8` and so on; addresses that services share are PROVER_REDIS_URL and so on.

    Attributes:
        concurrency: tasks at a time; 0 takes 16. A worker alone with an engine needs twice the tasks that would fill
            it: as continuations end, those of other tasks take their places.
        batch_samples: most continuations of one task. Fewer spread over more workers, more share a restored boundary.
        max_in_flight: most requests at a time to one policy engine.
        engine_patience_s: how long a continuation waits for an engine that is gone or full, and then goes on where it
            stood; no longer than half a task's limit.
        judge_timeout_s: for one judgement, tools and repairs included.
        task_limit_s: a task that has not ended by then is cut off and tried again.
        visibility_timeout_s: a message that was not acknowledged by then goes to somebody else.
        retries: how often a failed task is tried again before its analysis fails.
        metrics_port: where Prometheus reads; 0 is nowhere.
        log_level: of the Python logging module.
    """

    model_config = SettingsConfigDict(env_prefix="PROVER_VERIFIER_", extra="forbid", frozen=True, populate_by_name=True)

    concurrency: Annotated[int, Field(ge=0, le=256)] = 0
    batch_samples: Annotated[int, Field(ge=1, le=64)] = 4
    max_in_flight: Annotated[int, Field(ge=1)] = 64
    engine_patience_s: Annotated[float, Field(ge=0)] = 300.0
    judge_timeout_s: Annotated[float, Field(gt=0)] = 300.0
    task_limit_s: Annotated[float, Field(gt=0)] = 1800.0
    visibility_timeout_s: Annotated[int, Field(ge=1)] = 3600
    retries: Annotated[int, Field(ge=0, le=20)] = 5
    metrics_port: Annotated[int, Field(ge=0, le=65535)] = 0
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    redis_url: Annotated[str, Field(validation_alias="PROVER_REDIS_URL")] = "redis://127.0.0.1:6379/0"
    blob_url: Annotated[str, Field(validation_alias="PROVER_BLOB_URL")]
    policy_urls: Annotated[str, Field(validation_alias="PROVER_POLICY_URLS")] = "embedded=http://127.0.0.1:8100"
    policy_api_key: Annotated[SecretStr, Field(validation_alias="PROVER_POLICY_API_KEY")] = SecretStr("")
    judge_address: Annotated[str, Field(validation_alias="PROVER_JUDGE_ADDRESS")] = "127.0.0.1:8200"

    @model_validator(mode="after")
    def _outlasts_tasks(self) -> Self:
        longest = max(self.task_limit_s, self.judge_timeout_s)
        if self.visibility_timeout_s <= longest:
            raise ValueError(
                f"visibility_timeout_s: was {self.visibility_timeout_s}; expected more than the longest task, "
                f"{longest} s (task_limit_s, judge_timeout_s): otherwise tasks are given away while they run"
            )
        return self
