"""The policy engine, seen from outside."""

from prover.policies.policy import Completion, ContextTooLong, Policy, PolicyError, PolicyInfo, Sampling

__all__ = ["Completion", "ContextTooLong", "Policy", "PolicyError", "PolicyInfo", "Sampling"]
