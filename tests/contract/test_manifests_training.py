"""Whether what is deployed can be trained: learner and engine of one model, a trainer that finds them, traces."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from manifests import EVERYTHING, KUBERNETES, OVERLAYS, ROOT, compose_services, documents, needs_kubectl, pods

from prover.training.experiment import read_experiment
from prover.training.learner_experiment import LearnerExperiment, check_knobs, read_learner_experiment
from services.learner.config import LearnerSettings

BASE = "/var/lib/prover/weights/base"


def _container(overlay: str, kind: str, name: str) -> Mapping[str, Any] | None:
    template = dict(pods(overlay)).get(f"{kind} {name}")
    return None if template is None else template["spec"]["containers"][0]


def _env(container: Mapping[str, Any]) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in container["env"]}


def _option(arguments: list[str], option: str) -> str:
    (found,) = [one.partition("=")[2] for one in arguments if one.startswith(f"{option}=")]
    return found


def _experiment_of(overlay: str) -> LearnerExperiment:
    maps = [one for one in documents(overlay) if one["kind"] == "ConfigMap" and "learner.toml" in one.get("data", {})]
    (experiment,) = maps
    return check_knobs(tomllib.loads(experiment["data"]["learner.toml"]))


@needs_kubectl
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_learner_starts_from_what_the_engine_serves(overlay: str) -> None:
    learner, vllm = _container(overlay, "Job", "learner"), _container(overlay, "Deployment", "vllm")
    if learner is None:
        assert overlay == "production-stack"
    elif vllm is None:
        assert "PROVER_LEARNER_WEIGHTS" not in _env(learner), "the embedded engine serves the shipped policy"
        engine = _container(overlay, "Deployment", "engine")
        assert engine is not None and "PROVER_ENGINE_WEIGHTS" not in _env(engine)
    else:
        assert _env(learner)["PROVER_LEARNER_WEIGHTS"] == _option(vllm["args"], "--model") == BASE
        assert _experiment_of(overlay).probe_nats == 0.5, "vLLM computes in bfloat16"


@needs_kubectl
@pytest.mark.parametrize("overlay", [one for one in OVERLAYS if one != "dev"])
def test_somebody_puts_the_model_where_it_is_served_from_and_the_others_wait(overlay: str) -> None:
    model = _container(overlay, "Job", "model")
    assert model is not None
    assert model["command"][:3] == ["python", "-m", "services.learner.prepare_weights"] and BASE in model["command"]
    users = [spec for name, spec in pods(overlay) if name.startswith(("Deployment vllm", "Job learner"))]
    assert len(users) == 2
    for template in users:
        (waits,) = template["spec"]["initContainers"]
        assert f"{BASE}/prover.json" in waits["command"][-1]


@needs_kubectl
def test_vllm_takes_the_adapters_that_the_learner_makes() -> None:
    experiment, vllm = _experiment_of(EVERYTHING), _container(EVERYTHING, "Deployment", "vllm")
    assert vllm is not None and "--enable-lora" in vllm["args"]
    assert experiment.publish == "adapter"
    assert 0 < experiment.lora_rank <= int(_option(vllm["args"], "--max-lora-rank"))
    assert _env(vllm)["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] == "True"


@needs_kubectl
def test_the_trainer_may_call_what_it_is_told_to_call() -> None:
    trainer = _container(EVERYTHING, "Job", "trainer")
    assert trainer is not None
    told = dict(re.findall(r"//(\w+):(\d+)", " ".join(_env(trainer).values())))
    assert told == {"gateway": "8000", "rollout": "8201", "learner": "8202"}
    policies = {one["metadata"]["name"]: one["spec"] for one in documents(EVERYTHING) if one["kind"] == "NetworkPolicy"}
    services = {one["metadata"]["name"]: one["spec"] for one in documents(EVERYTHING) if one["kind"] == "Service"}
    out = {
        (rule["to"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/name"], str(port["port"]))
        for rule in policies["trainer"]["egress"]
        for port in rule["ports"]
    }
    assert out == set(told.items())
    (selected,) = policies["from-trainer"]["podSelector"]["matchExpressions"]
    assert set(selected["values"]) == told.keys()
    assert {str(port["port"]) for port in policies["from-trainer"]["ingress"][0]["ports"]} == set(told.values())
    for name, port in told.items():
        assert port in {str(one["port"]) for one in services[name]["ports"]}


@needs_kubectl
def test_traces_leave_where_a_collector_is_named_and_nowhere_else() -> None:
    def endpoint(overlay: str) -> str:
        (settings,) = [one for one in documents(overlay) if one["metadata"]["name"].startswith("settings")]
        return settings["data"]["OTEL_EXPORTER_OTLP_ENDPOINT"]

    assert endpoint("production") == "" and endpoint(EVERYTHING).endswith(":4318")
    policies = {one["metadata"]["name"]: one["spec"] for one in documents(EVERYTHING) if one["kind"] == "NetworkPolicy"}
    traced = {
        template["metadata"]["labels"]["app.kubernetes.io/name"]
        for _, template in pods(EVERYTHING)
        if any("envFrom" in container for container in template["spec"]["containers"])
    }
    (selected,) = policies["allow-traces"]["podSelector"]["matchExpressions"]
    assert traced <= set(selected["values"])


def test_the_experiments_that_are_deployed_can_be_read() -> None:
    for folder in ("vllm-learner", "adapters"):
        assert read_learner_experiment(KUBERNETES / folder / "learner.toml").publish_dtype == "bfloat16"
    shipped = read_experiment(ROOT / "configs" / "remote.toml")
    assert shipped.services == "remote"
    assert read_experiment(KUBERNETES / "trainer" / "experiment.toml") == shipped


def test_the_learner_of_the_compose_file_starts_from_what_its_engine_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    embedded, gpu = compose_services(gpu=False), compose_services(gpu=True)
    assert not embedded["learner"]["environment"]["PROVER_LEARNER_WEIGHTS"]
    assert embedded["learner"]["environment"]["PROVER_POLICY_URLS"].startswith("embedded=http://engine:8100")

    environment = gpu["learner"]["environment"]
    assert environment["PROVER_LEARNER_WEIGHTS"] == _option(gpu["vllm"]["command"].split(), "--model") == BASE
    assert BASE in gpu["model"]["command"]
    for name, value in environment.items():
        monkeypatch.setenv(name, str(value or ""))
    settings = LearnerSettings()
    assert settings.policy_urls == "vllm=http://vllm:8000" and settings.policy == ""
    mounts = dict(reversed(volume.split(":")[:2]) for volume in gpu["learner"]["volumes"])
    assert settings.experiment is not None
    experiment = ROOT / mounts[str(settings.experiment.parent)] / settings.experiment.name
    assert read_learner_experiment(experiment).probe_nats == 0.5


def test_who_needs_an_engine_waits_for_the_one_that_is_started() -> None:
    services = compose_services(gpu=True)
    for name in ("rollout", "learner", "coordinator", "verifier", "gateway"):
        needs = services[name]["depends_on"]
        assert needs["engine"]["condition"] == "service_healthy", name
        assert needs["vllm"] == {"condition": "service_healthy", "required": False}, name
    assert services["vllm"]["depends_on"]["model"]["condition"] == "service_completed_successfully"


def test_the_trainer_of_the_compose_file_finds_the_services() -> None:
    services = compose_services(gpu=False)
    trainer = services["trainer"]
    told = dict(re.findall(r"//(\w+):(\d+)", " ".join(str(value) for value in trainer["environment"].values())))
    assert told == {"gateway": "8000", "rollout": "8201", "learner": "8202"} and told.keys() <= services.keys()
    for name, port in told.items():
        assert f"_PORT={port}" in (ROOT / "services" / name / "Dockerfile").read_text()
    (config,) = [one for one in trainer["command"] if one.endswith(".toml")]
    assert (ROOT / "configs" / Path(config).name).is_file()
