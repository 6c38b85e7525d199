"""Where services listen and look for each other when nobody says otherwise."""

import inspect
from typing import Annotated, Any, get_args, get_origin

import pytest

from prover.cli_training import train
from services.engine.config import EngineSettings
from services.gateway.config import GatewaySettings
from services.judge.config import JudgeSettings
from services.learner.config import SHIPPED_WEIGHTS, LearnerSettings
from services.rollout.config import RolloutSettings
from services.verifier.config import VerifierSettings

SERVERS: dict[str, Any] = {
    "gateway": GatewaySettings,
    "engine": EngineSettings,
    "judge": JudgeSettings,
    "rollout": RolloutSettings,
    "learner": LearnerSettings,
}


def _default(settings: Any, field: str) -> Any:
    return settings.model_fields[field].default


def _port(service: str) -> int:
    return _default(SERVERS[service], "port")


def test_every_service_has_a_port_of_its_own() -> None:
    assert len({_port(service) for service in SERVERS}) == len(SERVERS)


@pytest.mark.parametrize("settings", [GatewaySettings, VerifierSettings])
def test_the_judge_is_looked_for_where_it_listens(settings: Any) -> None:
    assert _default(settings, "judge_address") == f"127.0.0.1:{_port('judge')}"


@pytest.mark.parametrize("settings", [GatewaySettings, VerifierSettings, RolloutSettings, LearnerSettings])
def test_the_engine_is_looked_for_where_it_listens(settings: Any) -> None:
    assert _default(settings, "policy_urls") == f"embedded=http://127.0.0.1:{_port('engine')}"


@pytest.mark.parametrize("service", ["rollout", "learner"])
def test_prover_train_looks_for_services_where_they_listen(service: str) -> None:
    option = inspect.signature(train).parameters[service]
    assert get_origin(option.annotation) is Annotated and get_args(option.annotation)[0] is str
    assert option.default == f"127.0.0.1:{_port(service)}"


def test_a_learner_that_is_given_nothing_starts_from_the_shipped_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compose file hands on every setting of .env, the empty ones too."""
    monkeypatch.setenv("PROVER_LEARNER_WEIGHTS", "")
    monkeypatch.setenv("PROVER_LEARNER_EXPERIMENT", "")
    settings = LearnerSettings()
    assert settings.weights == SHIPPED_WEIGHTS and settings.experiment is None
