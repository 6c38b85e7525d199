"""Transport settings that every gRPC process shares."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Paths of PEM files. A client needs `authority`; a server needs `certificate` and `key`, and with `authority`
    it asks clients for a certificate too."""

    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""A group of 16 trajectories of 50 turns of 2,000 tokens, contexts included, fits."""

ANALYSIS_KEY = "prover-analysis"
"""The metadata that says which analysis a call is about, for the logs."""
