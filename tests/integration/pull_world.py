"""What tests of the pull mode hand in: options of a caller that plays, and outcomes that it has played."""

from dataclasses import replace

from chain_world import OPTIONS

from prover.client import PlayedOutcome

EXTERNAL = replace(OPTIONS, policy="embedded", continuations="external")


def ended(request_id: str, sample: int, success: bool) -> PlayedOutcome:
    return {
        "request_id": request_id,
        "sample": sample,
        "success": success,
        "reward": float(success),
        "tokens": 5,
    }
