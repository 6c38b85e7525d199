"""How rules, alerts, dashboards and scraping get into a cluster."""

import subprocess
from typing import Any

import pytest
from manifests import KUBERNETES, OVERLAYS, ROOT, needs_kubectl, pods, yaml

PROMETHEUS, DASHBOARDS = ROOT / "deploy" / "prometheus", ROOT / "deploy" / "grafana" / "dashboards"
APPLY_LIMIT_BYTES = 262_144
"""What `kubectl apply` can note down of an object, in an annotation of it."""


def _read(text: str) -> dict[str, dict[str, Any]]:
    return {document["metadata"]["name"]: document for document in yaml.safe_load_all(text)}


def _for_the_operator(*arguments: str) -> dict[str, dict[str, Any]]:
    printed = subprocess.run([PROMETHEUS / "operator", *arguments], capture_output=True, text=True, check=True).stdout
    return {document["kind"]: document for document in yaml.safe_load_all(printed)}


@needs_kubectl
def test_the_config_maps_carry_the_files_that_compose_mounts() -> None:
    command = ["kubectl", "kustomize", str(KUBERNETES / "monitoring")]
    built = _read(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    rules = [PROMETHEUS / "rules.yml", PROMETHEUS / "alerts.yml"]
    files = {"prover-rules": rules, "prover-dashboards": list(DASHBOARDS.iterdir())}
    assert built.keys() == files.keys()
    for name, paths in files.items():
        assert built[name]["data"] == {path.name: path.read_text() for path in paths}
        assert built[name]["metadata"]["namespace"] == "monitoring"
        assert len(yaml.safe_dump(built[name])) < APPLY_LIMIT_BYTES
    assert built["prover-dashboards"]["metadata"]["labels"] == {"grafana_dashboard": "1"}


def test_the_operator_gets_every_rule_and_alert() -> None:
    printed = _for_the_operator("kube-prometheus")
    files = [yaml.safe_load((PROMETHEUS / name).read_text()) for name in ("rules.yml", "alerts.yml")]
    assert printed["PrometheusRule"]["spec"] == {"groups": [group for file in files for group in file["groups"]]}
    for document in printed.values():
        assert document["metadata"]["labels"] == {"release": "kube-prometheus"}


@needs_kubectl
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_operator_scrapes_every_pod_that_has_metrics_at_the_port_that_it_names(overlay: str) -> None:
    spec = _for_the_operator()["PodMonitor"]["spec"]
    assert spec["selector"] == {} and spec["namespaceSelector"] == {"matchNames": ["prover"]}
    asked = {endpoint["port"] for endpoint in spec["podMetricsEndpoints"]}
    for name, template in pods(overlay):
        annotations = template["metadata"].get("annotations", {})
        if annotations.get("prometheus.io/scrape") != "true":
            continue
        ports = [port for container in template["spec"]["containers"] for port in container.get("ports", [])]
        (scraped,) = [port["containerPort"] for port in ports if port["name"] in asked]
        assert str(scraped) == annotations["prometheus.io/port"], name
