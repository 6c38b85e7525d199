"""Environments that can be reset, stepped, forked and checked."""

from collections.abc import Callable, Mapping
from importlib import import_module

from prover.environments.environment import Environment, Observation, Step

ENVIRONMENTS: Mapping[str, str] = {
    "alfworld": "prover.environments.alfworld:AlfworldEnvironment",
    "alfworld-stock": "prover.environments.alfworld.stock:replayed_stock",
    "chain": "prover.environments.chain:ChainEnvironment",
}
"""Name -> "module:factory". A module is imported when asked for: one environment's needs are not everybody's."""

__all__ = ["ENVIRONMENTS", "Environment", "Observation", "Step", "make"]


def make(name: str, **options: object) -> Environment:
    """A new environment of that name. ValueError lists the known ones."""
    if name not in ENVIRONMENTS:
        raise ValueError(f"environment: was {name!r}; expected one of {', '.join(sorted(ENVIRONMENTS))}")
    module, _, attribute = ENVIRONMENTS[name].partition(":")
    factory: Callable[..., Environment] = getattr(import_module(module), attribute)
    return factory(**options)
