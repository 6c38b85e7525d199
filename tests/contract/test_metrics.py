"""What every process shows to Prometheus: well named, documented, and all that rules and dashboards ask for."""

import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from prover.training.metrics import TrainingMetrics
from services.engine.engine import Engine
from services.engine.metrics import EngineCollector
from services.gateway.metrics import Metrics as GatewayMetrics
from services.judge.metrics import JudgeMetrics
from services.learner.metrics import LearnerMetrics
from services.rollout.metrics import RolloutMetrics
from services.verifier.metrics import Metrics as VerifierMetrics

ROOT = Path(__file__).parents[2]
METRIC = re.compile(r"\bprover_[a-z_0-9]+\b")
ENDINGS: Mapping[str, tuple[str, ...]] = {
    "counter": ("_total",),
    "histogram": ("_bucket", "_sum", "_count"),
    "info": ("_info",),
}
PROCESSES = ("engine", "gateway", "judge", "learner", "rollout", "training", "verifier")


def _engine() -> CollectorRegistry:
    counters = dict.fromkeys(("steps", "prompt_tokens", "reused_tokens", "computed_tokens", "generated_tokens"), 0)
    status = SimpleNamespace(
        version="v0",
        running=0,
        waiting=0,
        cached_sequences=0,
        cached_bytes=0,
        counters=SimpleNamespace(**counters, finished={"stop": 0}),
    )
    registry = CollectorRegistry()
    registry.register(EngineCollector(cast("Engine", SimpleNamespace(status=lambda: status))))
    return registry


def _families(process: str) -> list[Metric]:
    """Everything that a process shows, also what nothing was counted for yet."""
    if process == "gateway":
        shown = text_string_to_metric_families(GatewayMetrics().text().decode())
        return [family for family in shown if not family.name.endswith("_created")]
    if process == "engine":
        return list(_engine().collect())
    if process == "verifier":
        return list(VerifierMetrics().registry.collect())
    registry = CollectorRegistry()
    made = {"judge": JudgeMetrics, "rollout": RolloutMetrics, "learner": LearnerMetrics, "training": TrainingMetrics}
    made[process](registry)
    return list(registry.collect())


def _exposition(families: Iterable[Metric]) -> str:
    """In Prometheus' text format; a family that waits for its first label gets a sample: tools skip empty ones."""
    filled: list[Metric] = []
    for family in families:
        if not family.samples:
            for ending in ENDINGS.get(family.type, ("",)):
                labels = {"le": "+Inf"} if ending == "_bucket" else {}
                family.add_sample(f"{family.name}{ending}", labels, 0.0)
        filled.append(family)
    return generate_latest(cast("CollectorRegistry", SimpleNamespace(collect=lambda: filled))).decode()


def _shown() -> set[str]:
    """Every name that a process shows."""
    families = [family for process in PROCESSES for family in _families(process) if family.documentation]
    return {f"{family.name}{ending}" for family in families for ending in ENDINGS.get(family.type, ("",))}


def test_rules_dashboards_and_the_autoscaler_ask_for_metrics_that_exist() -> None:
    shown = _shown()
    paths = [*(ROOT / "deploy" / "prometheus").glob("*.yml"), *(ROOT / "deploy" / "grafana").rglob("*.json")]
    paths.append(ROOT / "deploy" / "kubernetes" / "autoscaling" / "verifier.yaml")
    asked = {(name, path.name) for path in paths for name in METRIC.findall(path.read_text())}
    assert len(asked) > 30
    assert not {(name, where) for name, where in asked if name not in shown}


def test_every_metric_is_documented_and_none_that_is_gone() -> None:
    text = (ROOT / "docs" / "metrics.md").read_text()
    documented = {name for line in text.splitlines() if line.startswith("| `") for name in METRIC.findall(line)}
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in _shown()}
    assert documented == families


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
@pytest.mark.parametrize("process", PROCESSES)
def test_promtool_finds_nothing_wrong_with_what_is_shown(process: str) -> None:
    shown = _exposition(_families(process))
    assert shown.count("# HELP prover_") >= 5
    checked = subprocess.run(["promtool", "check", "metrics"], input=shown, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
