"""The Kubernetes manifests as kustomize builds them, for the tests that read them."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

ROOT = Path(__file__).parents[2]
KUBERNETES = ROOT / "deploy" / "kubernetes"
EVERYTHING = "production+trainer+traces+adapters+judge-llm"
OVERLAYS = ("dev", "production", "production-stack", EVERYTHING)
"""An overlay, and components that somebody adds to it."""

needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")


@cache
def documents(overlay: str) -> tuple[dict[str, Any], ...]:
    """Every object of it."""
    name, *components = overlay.split("+")
    with TemporaryDirectory() as folder:
        base, *added = (os.path.relpath(KUBERNETES / path, folder) for path in (f"overlays/{name}", *components))
        root = {"kind": "Kustomization", "namespace": "prover", "resources": [base], "components": added}
        (Path(folder) / "kustomization.yaml").write_text(json.dumps(root))
        built = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return tuple(yaml.safe_load_all(built.stdout))


def pods(overlay: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(kind and name of what makes the pods, their template)."""
    for document in documents(overlay):
        template = document.get("spec", {}).get("template")
        if template is not None:
            yield f"{document['kind']} {document['metadata']['name']}", template


def compose_services(*, gpu: bool) -> dict[str, Any]:
    """The compose file's services with the settings of .env.example put in."""
    settings: dict[str, str] = {}
    for line in (ROOT / ".env.example").read_text().splitlines():
        name, is_setting, value = line.removeprefix("#gpu " if gpu else "").partition("=")
        if is_setting and re.fullmatch(r"\w+", name):
            settings[name] = value
    text = re.sub(
        r"\$\{(\w+):?-([^}]*)\}",
        lambda match: settings.get(match[1]) or match[2],
        (ROOT / "docker-compose.yml").read_text(),
    )
    services: dict[str, Any] = yaml.safe_load(text)["services"]
    return services
