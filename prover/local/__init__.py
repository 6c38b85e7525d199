"""All services on one machine, for laptops, the demo and tests: `prover up`. The one part of the library that starts
processes, and only when it is asked to."""

from prover.local.stack import Addresses, LocalStack, ServedPolicy, StackFailed, served_policy

__all__ = ["Addresses", "LocalStack", "ServedPolicy", "StackFailed", "served_policy"]
