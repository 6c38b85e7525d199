"""The requests of the REST API, and when one is tried again: what the two clients share. No I/O."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote
from uuid import uuid4

import httpx

from prover.analysis import Options
from prover.client.documents import Analysis, Event, Json, PlayedOutcome
from prover.client.errors import GatewayUnreachable, check
from prover.client.group_json import group_to_json, options_to_json
from prover.lifecycle import END_STATES
from prover.trajectory import Group

DEFAULT_URL = "http://127.0.0.1:8000"
MAX_WAIT_S = 60.0
"""Most that the gateway waits in one request."""

_COME_BACK = frozenset({429, 502, 503, 504})
_LONGEST_PAUSE_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request. `extra_s` is added to the time limit: the gateway may wait so long on purpose."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    content: bytes | None = None
    extra_s: float = 0.0


def address(url: str | None) -> str:
    """The gateway's address: the one given, else PROVER_URL, else this machine's port 8000."""
    return (url or os.environ.get("PROVER_URL") or DEFAULT_URL).rstrip("/")


def submit(group: Group | Mapping[str, Json], options: Options | Mapping[str, Json] | None, key: str | None) -> Call:
    """Hands in a group. With a key of its own it is safe to repeat."""
    body = {"group": group_to_json(group) if isinstance(group, Group) else dict(group)}
    if options is not None:
        body["options"] = options_to_json(options) if isinstance(options, Options) else dict(options)
    return submit_json(body, key)


def submit_json(body: Mapping[str, Json], key: str | None) -> Call:
    """The same for a body that is JSON already. ValueError for what JSON cannot say, such as NaN."""
    headers = {"Content-Type": "application/json", "Idempotency-Key": key or uuid4().hex}
    content = json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
    return Call(method="POST", path="/v1/analyses", headers=headers, content=content)


def get(analysis_id: str, wait_s: float) -> Call:
    """An analysis, or its end if that comes within `wait_s`."""
    wait_s = min(wait_s, MAX_WAIT_S)
    params = {"wait": str(wait_s)} if wait_s > 0 else {}
    return Call(method="GET", path=_path(analysis_id), params=params, extra_s=wait_s)


def advantages(analysis_id: str) -> Call:
    """The advantages."""
    return Call(method="GET", path=f"{_path(analysis_id)}/advantages")


def continuations(analysis_id: str) -> Call:
    """The continuations that were kept."""
    return Call(method="GET", path=f"{_path(analysis_id)}/continuations")


def requests(analysis_id: str, wait_s: float) -> Call:
    """What the caller is asked to play, or the first of it that comes within `wait_s`."""
    wait_s = min(wait_s, MAX_WAIT_S)
    params = {"wait": str(wait_s)} if wait_s > 0 else {}
    return Call(method="GET", path=f"{_path(analysis_id)}/requests", params=params, extra_s=wait_s)


def outcomes(analysis_id: str, played: Sequence[PlayedOutcome]) -> Call:
    """Hands in what the caller has played; safe to repeat."""
    content = json.dumps({"outcomes": list(played)}, allow_nan=False, separators=(",", ":")).encode()
    headers = {"Content-Type": "application/json"}
    return Call(method="POST", path=f"{_path(analysis_id)}/outcomes", headers=headers, content=content)


def cancel(analysis_id: str) -> Call:
    """Stops an analysis."""
    return Call(method="POST", path=f"{_path(analysis_id)}/cancel")


def delete(analysis_id: str) -> Call:
    """Removes an analysis."""
    return Call(method="DELETE", path=_path(analysis_id))


def recent(limit: int, before: str | None) -> Call:
    """A page of the list."""
    params = {"limit": str(limit)} | ({} if before is None else {"before": before})
    return Call(method="GET", path="/v1/analyses", params=params)


def policy(name: str | None) -> Call:
    """What a policy engine serves."""
    return Call(method="GET", path="/v1/policy", params={} if name is None else {"policy": name})


def judge_record(judge: str) -> Call:
    """A judge's verified record."""
    return Call(method="GET", path=f"/v1/judges/{quote(judge, safe='')}/record")


def events(analysis_id: str, after: str | None) -> Call:
    """The stream of an analysis' events."""
    headers = {} if after is None else {"Last-Event-ID": after}
    return Call(method="GET", path=f"{_path(analysis_id)}/events", headers=headers)


def ended(analysis: Analysis) -> bool:
    """Nothing more will happen to it."""
    return analysis["status"] in END_STATES


def is_end(event: Event) -> bool:
    """The last event of an analysis."""
    return event.event == "status" and event.data.get("status") in END_STATES


def pauses(retries: int) -> Iterator[float]:
    """Seconds to wait before each further try."""
    for attempt in range(retries):
        yield min(0.2 * 2**attempt, _LONGEST_PAUSE_S)


def try_again(response: httpx.Response) -> bool:
    """The gateway is there but asks to come back."""
    return response.status_code in _COME_BACK


class Interrupted(Exception):
    """A try that may be made again: nobody there, a connection that broke, or an answer that asks to come back."""

    def __init__(
        self, *, response: httpx.Response | None = None, url: str = "", error: httpx.TransportError | None = None
    ) -> None:
        super().__init__(f"{url}: {error or 'the connection closed before the end'}")
        self.response = response


def next_pause_s(planned: Iterator[float], broken: Interrupted) -> float:
    """How long to wait; what the gateway asks for comes first, within reason.

    Raises what the caller is to see once there is no further try: ProblemError or GatewayUnreachable.
    """
    pause_s = next(planned, None)
    if pause_s is None:
        if broken.response is not None:
            check(broken.response)
        raise GatewayUnreachable(f"gateway at {broken}") from broken
    asked = "" if broken.response is None else broken.response.headers.get("Retry-After", "")
    return min(float(asked), _LONGEST_PAUSE_S) if asked.isdecimal() else pause_s


class EventLines:
    """Puts the lines of an event stream together."""

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}

    def feed(self, line: str) -> Event | None:
        """The event that this line completes, if it does."""
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "data" and "data" in self._fields:
                value = f"{self._fields['data']}\n{value}"
            self._fields[name] = value
            return None
        fields, self._fields = self._fields, {}
        if "data" not in fields:
            return None
        return Event(id=fields.get("id", ""), event=fields.get("event", "message"), data=json.loads(fields["data"]))


def _path(analysis_id: str) -> str:
    if not analysis_id:
        raise ValueError("analysis id: was empty; expected one that submit answered")
    return f"/v1/analyses/{quote(analysis_id, safe='')}"
