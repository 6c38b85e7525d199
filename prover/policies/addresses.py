"""Where the policy engines are, and the key that they ask for: the settings PROVER_POLICY_URLS and
PROVER_POLICY_API_KEY, which gateway, rollout, verifier and learner share."""

import socket
from urllib.parse import urlsplit

KEEP_ALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)
"""How TCP asks whether the other end of a long wait is still there: after 15 s, every 5 s, given up after 3 times."""


def parse_addresses(text: str) -> dict[str, str]:
    """Names and addresses from "embedded=http://127.0.0.1:8001,vllm=http://gpu:8000"; ValueError names the bad part.

    >>> parse_addresses("embedded=http://127.0.0.1:8001, vllm=http://gpu:8000/")
    {'embedded': 'http://127.0.0.1:8001', 'vllm': 'http://gpu:8000'}
    """
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, url = (piece.strip() for piece in part.partition("="))
        address = urlsplit(url)
        if not (name and equals and address.scheme in ("http", "https") and address.netloc):
            raise ValueError(f"policy urls: was {part!r}; expected NAME=http://HOST:PORT")
        if name in found:
            raise ValueError(f"policy urls: {name!r} stands twice; expected each name once")
        found[name] = url.rstrip("/")
    if not found:
        raise ValueError(f"policy urls: was {text!r}; expected at least one NAME=http://HOST:PORT")
    return found


def bearer(api_key: str) -> dict[str, str]:
    """The header that a key makes; none where there is no key.

    >>> bearer("s3cret"), bearer("")
    ({'Authorization': 'Bearer s3cret'}, {})
    """
    return {"Authorization": f"Bearer {api_key}"} if api_key else {}
