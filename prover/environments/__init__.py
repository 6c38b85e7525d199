"""Environments that can be reset, stepped, forked and checked."""

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import entry_points

from prover.environments.environment import Environment, Observation, Step

ENVIRONMENTS: Mapping[str, str] = {
    "alfworld": "prover.environments.alfworld:AlfworldEnvironment",
    "alfworld-stock": "prover.environments.alfworld.stock:replayed_stock",
    "chain": "prover.environments.chain:ChainEnvironment",
}
"""Name -> "module:factory". A module is imported when asked for: one environment's needs are not everybody's."""

__all__ = ["ENTRY_POINTS", "ENVIRONMENTS", "Environment", "Observation", "Step", "known", "make"]

ENTRY_POINTS = "prover.environments"
"""The entry-point group in which an installed package names environments of its own, as NAME = "module:factory"."""


def known() -> Mapping[str, str]:
    """Every environment of this installation: ours, and those of installed packages. Ours keep their names."""
    return {**{point.name: point.value for point in entry_points(group=ENTRY_POINTS)}, **ENVIRONMENTS}


def make(name: str, **options: object) -> Environment:
    """A new environment of that name. ValueError lists the known ones."""
    # Reading the entry points takes tens of milliseconds, and an environment is made for every continuation.
    target = ENVIRONMENTS.get(name) or known().get(name)
    if target is None:
        raise ValueError(f"environment: was {name!r}; expected one of {', '.join(sorted(known()))}")
    module, _, attribute = target.partition(":")
    factory: Callable[..., Environment] = getattr(import_module(module), attribute)
    return factory(**options)
