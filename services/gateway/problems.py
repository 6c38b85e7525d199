"""Problem documents (RFC 9457): what a caller is told when a request cannot be answered."""

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from pydantic import JsonValue, ValidationError

MEDIA_TYPE = "application/problem+json"
_COMPLAINT = re.compile(r"(task\.[\w.]+): was (.*?); expected (.*)", re.DOTALL)
_MOST_ERRORS = 20
_MOST_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """One thing that is wrong: the field ("group.trajectories[0].reward"), what was there, what was expected."""

    field: str
    was: str
    expected: str

    def __str__(self) -> str:
        return f"{self.field}: was {self.was}; expected {self.expected}"


class Problem(Exception):
    """A request cannot be answered. `kind` ends the problem's type; `retry_after_s` asks to try again."""

    def __init__(
        self,
        status: int,
        kind: str,
        title: str,
        *,
        detail: str = "",
        mistakes: Sequence[Mistake] = (),
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(detail or title)
        self.status = status
        self.kind = kind
        self.title = title
        self.detail = detail or "; ".join(str(mistake) for mistake in mistakes[:3]) or title
        self.mistakes = tuple(mistakes[:_MOST_ERRORS])
        self.retry_after_s = retry_after_s

    def document(self) -> dict[str, JsonValue]:
        """The problem as JSON."""
        document: dict[str, JsonValue] = {
            "type": f"urn:prover:problem:{self.kind}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
        }
        if self.mistakes:
            document["errors"] = [asdict(mistake) for mistake in self.mistakes]
        return document


def invalid_analysis(mistakes: Sequence[Mistake]) -> Problem:
    """The body is JSON, but no analysis can be made of it."""
    return Problem(422, "invalid-analysis", "The analysis that was asked for cannot be made", mistakes=mistakes)


def not_json(detail: str) -> Problem:
    """The body could not be read at all."""
    mistake = Mistake(field="body", was=detail, expected="one JSON object (RFC 8259)")
    return Problem(400, "not-json", "The body is not JSON", mistakes=[mistake])


def invalid_parameter(field: str, was: object, expected: str) -> Problem:
    """A header, a query parameter or a part of the path is not what it must be."""
    mistake = Mistake(field=field, was=shown(was), expected=expected)
    return Problem(400, "invalid-parameter", "A parameter cannot be used", mistakes=[mistake])


def not_found(analysis_id: str) -> Problem:
    """No such analysis, or not any more."""
    mistake = Mistake(field="id", was=shown(analysis_id), expected="the id of an analysis that has not been deleted")
    return Problem(404, "not-found", "No such analysis", mistakes=[mistake])


def unavailable(what: str, detail: str, *, retry_after_s: int = 2) -> Problem:
    """Something that the gateway needs does not answer; the caller may try again."""
    return Problem(503, "unavailable", f"{what} does not answer", detail=detail, retry_after_s=retry_after_s)


def from_validation(
    error: ValidationError, *, refuse: Callable[[Sequence[Mistake]], Problem] = invalid_analysis
) -> Problem:
    """pydantic's findings as a problem: 400 where it could not read JSON, else what `refuse` makes of them."""
    findings = error.errors(include_url=False, include_context=False)
    if findings[0]["type"] == "json_invalid":
        return not_json(findings[0]["msg"].removeprefix("Invalid JSON: "))
    mistakes = [
        Mistake(
            field=_path(finding["loc"]),
            was="nothing" if finding["type"] == "missing" else shown(finding["input"]),
            expected=_expected(finding["type"], finding["msg"]),
        )
        for finding in findings[:_MOST_ERRORS]
    ]
    return refuse(mistakes)


def mistake_of(error: ValueError, *, task_id: str) -> Mistake:
    """An environment's complaint about a task as a mistake in the body.

    >>> str(mistake_of(ValueError("task.seed: was -1; expected 0 or more"), task_id="a"))
    'group.task.seed: was -1; expected 0 or more'
    >>> str(mistake_of(ValueError("no such game"), task_id="a"))
    "group.task.task_id: was 'a'; expected a task that its environment has (no such game)"
    """
    found = _COMPLAINT.fullmatch(str(error))
    if found is None:
        expected = f"a task that its environment has ({error})"
        return Mistake(field="group.task.task_id", was=shown(task_id), expected=expected)
    field, was, expected = found.groups()
    return Mistake(field=f"group.{field}", was=was, expected=expected)


def shown(value: object) -> str:
    """A value as text, shortened."""
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}... ({len(text)} characters)"


def _path(location: Sequence[int | str]) -> str:
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
    return path.removeprefix(".") or "body"


def _expected(kind: str, message: str) -> str:
    if kind == "missing":
        return "this field"
    if kind == "extra_forbidden":
        return "no field of this name"
    plain = message.removeprefix("Value error, ").removeprefix("Input should be ")
    return plain.removeprefix("Input should ")
