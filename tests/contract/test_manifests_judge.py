"""What the judge may spend can be set wherever it is deployed."""

import re

import pytest
from manifests import EVERYTHING, KUBERNETES, ROOT, compose_services, documents, needs_kubectl, pods, yaml

from services.judge.config import JudgeSettings, LlmSettings

_OF_THE_MODEL = {f"PROVER_JUDGE_LLM_{name.upper()}" for name in LlmSettings.model_fields} - {"PROVER_JUDGE_LLM_API_KEY"}


def test_compose_passes_every_setting_of_the_model_on() -> None:
    environment = compose_services(gpu=False)["judge"]["environment"]
    assert environment.keys() >= _OF_THE_MODEL | {"PROVER_JUDGE_TIMEOUT_S"}


def test_the_limits_beside_compose_are_read_and_are_those_that_hold_anyway(monkeypatch: pytest.MonkeyPatch) -> None:
    named = dict(re.findall(r"^#judge (\w+)=(\S+)$", (ROOT / ".env.example").read_text(), re.MULTILINE))
    for name, value in named.items():
        monkeypatch.setenv(name, value)
    told = LlmSettings()
    assert told.max_cost_usd is not None and told.input_usd is not None and told.output_usd is not None
    limits, timeout_s = told.limits(timeout_s=1.0), JudgeSettings().timeout_s
    for name in named:
        monkeypatch.delenv(name)
    assert (limits.max_model_calls, limits.max_tokens, limits.max_repairs, timeout_s) == (
        LlmSettings().max_model_calls,
        LlmSettings().max_tokens,
        LlmSettings().max_repairs,
        JudgeSettings().timeout_s,
    )


@needs_kubectl
def test_a_pod_of_the_judge_reads_all_that_its_component_says() -> None:
    (template,) = [template for name, template in pods(EVERYTHING) if name == "Deployment judge"]
    (container,) = template["spec"]["containers"]
    maps = [one["configMapRef"]["name"] for one in container["envFrom"]]
    assert [re.sub(r"-\w{10}$", "", name) for name in maps] == ["settings", "judge-llm"]
    (told,) = [one["data"] for one in documents(EVERYTHING) if one["metadata"]["name"] == maps[1]]
    assert told.keys() <= _OF_THE_MODEL and told["PROVER_JUDGE_LLM_URL"]


def test_the_component_keeps_the_settings_of_every_judge() -> None:
    """Its patch replaces the list of the base: it has to name that, too."""

    def maps(path: str) -> list[str]:
        for document in yaml.safe_load_all((KUBERNETES / path).read_text()):
            if document["kind"] == "Deployment":
                (container,) = document["spec"]["template"]["spec"]["containers"]
                return [one["configMapRef"]["name"] for one in container["envFrom"]]
        raise AssertionError(path)

    assert maps("judge-llm/judge.yaml") == [*maps("base/judge.yaml"), "judge-llm"]
