"""A small engine in a process of its own: the part of vLLM's protocol that the policy client speaks, for the chain.

python chain_engine.py PORT [--chance 0.5] [--version v0] [--pause-s 0.0]
"""

import argparse
import json
import random
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from chain_world import TASK, door_text


class Handler(BaseHTTPRequestHandler):
    """Answers /v1/models, /tokenize and /v1/completions."""

    protocol_version = "HTTP/1.1"
    chance = 0.5
    weights_version = "v0"
    pause_s = 0.0

    def do_GET(self) -> None:
        if self.path != "/v1/models":
            self.send_error(404)
            return
        card = {"id": "chain", "max_model_len": 100_000, "weights_version": self.weights_version}
        self._answer({"data": [card]})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/tokenize":
            self._answer({"tokens": [ord(letter) for letter in asked["prompt"]]})
            return
        time.sleep(self.pause_s)
        context = "".join(map(chr, asked["prompt"]))
        text = door_text(context, seed=TASK.seed, chance=self.chance, draw=random.random())
        choice = {
            "text": text[:-1],
            "finish_reason": "stop",
            "token_ids": [ord(letter) for letter in text],
            "logprobs": {"token_logprobs": [-0.1] * len(text)},
        }
        self._answer({"model": "chain", "weights_version": self.weights_version, "choices": [choice]})

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""

    def _answer(self, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--chance", type=float, default=0.5)
    parser.add_argument("--version", default="v0")
    parser.add_argument("--pause-s", type=float, default=0.0)
    asked = parser.parse_args()
    Handler.chance, Handler.weights_version, Handler.pause_s = asked.chance, asked.version, asked.pause_s
    ThreadingHTTPServer.request_queue_size = 128
    ThreadingHTTPServer(("127.0.0.1", asked.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
