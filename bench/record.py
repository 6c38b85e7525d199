"""The record that every benchmark leaves: what was run, on what, from which commit, and what came out."""

import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def write_record(
    name: str,
    *,
    settings: Mapping[str, object],
    headline: Mapping[str, float],
    rows: Sequence[Mapping[str, object]],
) -> Path:
    """Writes bench/results/NAME.json and answers its path."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    record = {
        "name": name,
        "commit": commit(),
        "machine": machine(),
        "settings": settings,
        "headline": headline,
        "rows": rows,
    }
    path.write_text(json.dumps(record, indent=1) + "\n")
    return path


def machine() -> dict[str, object]:
    """What a reader needs to judge the figures: processor, cores, Python."""
    model = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    return {"processor": model, "cores": os.cpu_count(), "python": platform.python_version()}


def commit() -> str:
    """The commit that is checked out, with "+" where files differ from it."""
    try:
        head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
        dirty = subprocess.run(["git", "status", "--porcelain", "-uno"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head.stdout.strip() + ("+" if dirty.stdout.strip() else "")
