"""The Python client of the REST API."""

from prover.client.async_client import AsyncProverClient
from prover.client.client import ProverClient
from prover.client.continuation_nouns import continuations_to_nouns
from prover.client.documents import (
    Advantages,
    Analysis,
    AuditRecord,
    Continuations,
    Event,
    JudgeRecord,
    Page,
    PlayedOutcome,
    Policy,
    Request,
    Requests,
    Taken,
)
from prover.client.errors import GatewayUnreachable, ProblemError
from prover.client.group_json import group_to_json, options_to_json

__all__ = [
    "Advantages",
    "Analysis",
    "AsyncProverClient",
    "AuditRecord",
    "Continuations",
    "Event",
    "GatewayUnreachable",
    "JudgeRecord",
    "Page",
    "PlayedOutcome",
    "Policy",
    "ProblemError",
    "ProverClient",
    "Request",
    "Requests",
    "Taken",
    "continuations_to_nouns",
    "group_to_json",
    "options_to_json",
]
