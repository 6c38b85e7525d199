"""An OpenAI-compatible chat server that plays a judge by script, over real HTTP, and remembers what it was sent."""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Request = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What goes over the wire. `message` makes a chat completion; `raw` is sent as it is."""

    message: dict[str, Any] | None = None
    raw: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    usage: dict[str, int] | None = field(default_factory=lambda: {"prompt_tokens": 100, "completion_tokens": 10})


Script = Callable[[int, Request], Answer]
"""(number of the request from 0, the request) to the answer."""


def say(text: str, **fields: Any) -> Answer:
    return Answer(message={"role": "assistant", "content": text}, **fields)


def act(request: Request, name: str, **arguments: Any) -> Answer:
    """A tool call in the protocol that the request speaks."""
    if "tools" not in request:
        return say(json.dumps({"tool": name, **arguments}))
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": "c1", "type": "function", "function": function}
    return Answer(message={"role": "assistant", "content": None, "tool_calls": [call]})


class _Quiet(ThreadingHTTPServer):
    """A client that goes away early is part of the play."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


class ScriptedServer:
    """Listens on a free port of the loopback interface while it is open."""

    def __init__(self, script: Script) -> None:
        self.requests: list[Request] = []
        self.authorizations: list[str] = []
        self._script = script
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                request = json.loads(body)
                with outer._lock:
                    number = len(outer.requests)
                    outer.requests.append(request)
                    outer.authorizations.append(self.headers.get("Authorization", ""))
                answer = outer._script(number, request)
                time.sleep(answer.delay_s)
                payload = answer.raw
                if answer.message is not None:
                    usage = {} if answer.usage is None else {"usage": answer.usage}
                    payload = json.dumps({"choices": [{"index": 0, "message": answer.message}], **usage}).encode()
                try:
                    self.send_response(answer.status)
                    for name, value in answer.headers.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(payload)))
                    self.end_headers()
                    self.wfile.write(payload)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = _Quiet(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> "ScriptedServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
