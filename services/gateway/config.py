"""Where things are, from the environment."""

from typing import Annotated

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class GatewaySettings(BaseSettings):
    """PROVER_GATEWAY_HOST and so on; the addresses that other services share are PROVER_REDIS_URL and so on."""

    model_config = SettingsConfigDict(env_prefix="PROVER_GATEWAY_", frozen=True, populate_by_name=True)

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    max_body_mib: Annotated[int, Field(ge=1, le=1024)] = 64
    max_active: Annotated[int, Field(ge=1)] = 10_000
    idle_s: Annotated[float, Field(gt=0)] = 20.0
    """An analysis that nothing has happened to for so long is sent again."""
    check_tasks: bool = True
    """Try each task at the door. Off where the gateway has no access to the environments' data."""
    redis_url: Annotated[str, Field(validation_alias="PROVER_REDIS_URL")] = "redis://127.0.0.1:6379/0"
    blob_url: Annotated[str, Field(validation_alias="PROVER_BLOB_URL")]
    policy_urls: Annotated[str, Field(validation_alias="PROVER_POLICY_URLS")] = "embedded=http://127.0.0.1:8100"
    policy_api_key: Annotated[SecretStr, Field(validation_alias="PROVER_POLICY_API_KEY")] = SecretStr("")
    judge_address: Annotated[str, Field(validation_alias="PROVER_JUDGE_ADDRESS")] = "127.0.0.1:8200"
