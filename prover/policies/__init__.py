"""The policy engine, seen from outside."""

from prover.policies.client import PolicyClient
from prover.policies.policy import Completion, ContextTooLong, Policy, PolicyError, PolicyInfo, Sampling

__all__ = ["Completion", "ContextTooLong", "Policy", "PolicyClient", "PolicyError", "PolicyInfo", "Sampling"]
