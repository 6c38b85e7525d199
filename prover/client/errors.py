"""What can go wrong between a client and a gateway."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import httpx


class GatewayUnreachable(ConnectionError):
    """Nothing answers at the address, after every retry."""


class ProblemError(Exception):
    """The gateway refused. `document` is its problem document (RFC 9457)."""

    def __init__(self, status: int, document: Mapping[str, Any]) -> None:
        super().__init__(f"{status} {document.get('title', '')}: {document.get('detail', '')}")
        self.status = status
        self.document = document

    @property
    def kind(self) -> str:
        """The last part of the problem's type, such as "invalid-analysis"."""
        return str(self.document.get("type", "")).rpartition(":")[2]

    @property
    def mistakes(self) -> Sequence[Mapping[str, str]]:
        """Each with `field`, `was` and `expected`."""
        return self.document.get("errors") or ()


def check(response: httpx.Response) -> None:
    """Raises ProblemError for everything but a success. The body must have been read."""
    if response.is_success:
        return
    try:
        document: object = response.json()
    except ValueError:
        document = None
    if not isinstance(document, dict):
        document = {"title": response.reason_phrase, "detail": response.text[:500]}
    raise ProblemError(response.status_code, cast("dict[str, Any]", document))
