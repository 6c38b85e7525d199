"""The one place that makes gRPC channels: message sizes, keep-alive, TLS, retries with back-off.

A channel belongs to the event loop and the process that made it: make it after a fork, never before.
"""

import json

import grpc

from prover.rpc.settings import MAX_MESSAGE_BYTES, Tls

# Only UNAVAILABLE is retried: the server did not take the call, or went away in the middle of one that may be repeated.
_RETRIES = {
    "methodConfig": [
        {
            "name": [{}],
            "waitForReady": True,
            "retryPolicy": {
                "maxAttempts": 5,
                "initialBackoff": "0.2s",
                "maxBackoff": "3s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ],
    "loadBalancingConfig": [{"round_robin": {}}],
}


def open_channel(address: str, tls: Tls | None = None) -> grpc.aio.Channel:
    """A channel to "host:port" or "dns:///service:port"; the latter is balanced over all its addresses.

    Calls wait for a server that is not up yet, as long as their deadline allows; so every call needs a deadline.
    """
    options = [
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.max_reconnect_backoff_ms", 2_000),
        ("grpc.service_config", json.dumps(_RETRIES)),
    ]
    if tls is None:
        return grpc.aio.insecure_channel(address, options=options)
    credentials = grpc.ssl_channel_credentials(
        root_certificates=tls.authority.read_bytes() if tls.authority else None,
        private_key=tls.key.read_bytes() if tls.key else None,
        certificate_chain=tls.certificate.read_bytes() if tls.certificate else None,
    )
    return grpc.aio.secure_channel(address, credentials, options=options)
