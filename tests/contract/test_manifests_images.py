"""What an image carries, what the compose file runs, where alerts lead to: checked without an engine."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

ROOT = Path(__file__).parents[2]
SERVICES = ("gateway", "rollout", "judge", "verifier", "learner", "engine")
TORCHLESS = ("gateway", "rollout", "judge", "verifier")


def _closure(name: str, extras: frozenset[str], seen: set[tuple[str, frozenset[str]]]) -> Iterator[str]:
    if (name, extras) in seen:
        return
    seen.add((name, extras))
    yield name
    try:
        needed = requires(name) or []
    except PackageNotFoundError:
        return  # another platform's
    for requirement in map(Requirement, needed):
        wanted = extras or {""}
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in wanted):
            yield from _closure(canonicalize_name(requirement.name), frozenset(requirement.extras), seen)


def _carries(service: str) -> set[str]:
    dockerfile = (ROOT / "services" / service / "Dockerfile").read_text()
    (extras,) = re.findall(rf"install dependencies ({service}\S*)\nCOPY README", dockerfile)
    return set(_closure("prover", frozenset(extras.split(",")), set()))


@pytest.mark.parametrize("service", TORCHLESS)
def test_a_service_that_trains_nothing_carries_no_torch(service: str) -> None:
    carried = _carries(service)
    assert "grpcio" in carried
    assert not carried & {"torch", "transformers", "textworld", "alfworld"}


@pytest.mark.parametrize("service", ["learner", "engine"])
def test_who_computes_carries_torch_and_no_queue(service: str) -> None:
    carried = _carries(service)
    assert "torch" in carried
    assert not carried & {"celery", "redis"}


def test_images_carry_what_is_asked_of_them_beside_their_service() -> None:
    assert "peft" in _carries("learner"), "lora_rank and publish = 'adapter'"
    assert "tensorboardx" in _carries("rollout"), "`prover train`, which the trainer runs in this image"


@pytest.mark.parametrize("service", SERVICES)
def test_every_image_ends_as_nobody_and_checks_itself(service: str) -> None:
    lines = (ROOT / "services" / service / "Dockerfile").read_text().splitlines()
    last_stage = lines[max(number for number, line in enumerate(lines) if line.startswith("FROM ")) :]
    assert "USER 10001:10001" in last_stage
    assert any(line.startswith("HEALTHCHECK ") for line in last_stage)
    assert any(line.startswith("RUN /opt/images/lacks ") for line in lines)
    assert "ARG PYTHON_IMAGE=" in "\n".join(lines) and ":latest" not in "\n".join(lines)


def test_every_container_of_the_compose_file_is_read_only_limited_and_without_capabilities() -> None:
    services: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    assert set(SERVICES) <= services.keys()
    for name, service in services.items():
        assert service["read_only"] is True and service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"] and "privileged" not in service, name
        assert {"cpus", "memory", "pids"} <= service["deploy"]["resources"]["limits"].keys(), name
        assert "build" in service or ":" in service["image"], name


def test_no_secret_stands_in_the_compose_file_or_its_settings() -> None:
    for path in (ROOT / "docker-compose.yml", ROOT / ".env.example"):
        for line in path.read_text().splitlines():
            counted = re.search("PROVER_JUDGE_LLM_(CONTEXT|REPLY|MAX)_TOKENS[=:]", line)
            named = re.search("FILE|_PATH", line)
            if re.search(r"(PASSWORD|API_KEY|TOKEN)\w*[=:]", line) and not (counted or named):
                pytest.fail(f"{path.name}: {line}")


@pytest.mark.skipif(
    shutil.which("docker") is None
    or subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode != 0,
    reason="docker compose is not installed",
)
def test_docker_compose_reads_the_file() -> None:
    files = ["-f", "docker-compose.yml", "-f", "docker-compose.gpu.yml"]
    command = ["docker", "compose", *files, "--profile", "*", "--env-file", ".env.example", "config", "-q"]
    read = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert read.returncode == 0, read.stderr


def test_every_alert_leads_to_a_section_that_says_what_to_do() -> None:
    headings = re.findall(r"^#+ (.+)$", (ROOT / "docs" / "operations.md").read_text(), re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    groups = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text())["groups"]
    for alert in groups[0]["rules"]:
        page, _, anchor = alert["annotations"]["runbook"].partition("#")
        assert page == "docs/operations.md" and anchor in anchors, alert["alert"]


def test_the_dashboards_are_what_grafana_loads() -> None:
    boards = [json.loads(path.read_text()) for path in (ROOT / "deploy" / "grafana" / "dashboards").glob("*.json")]
    assert {board["uid"] for board in boards} == {"prover-health", "prover-credit"}
    for board in boards:
        ids = [panel["id"] for panel in board["panels"]]
        assert len(ids) == len(set(ids))


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_alerts_fire_when_they_should_and_only_then() -> None:
    checked = subprocess.run(
        ["promtool", "test", "rules", "deploy/prometheus/alerts_test.yml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
