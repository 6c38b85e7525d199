"""ALFWorld, with an engine of our own that can be forked. See `engine`."""

from prover.environments.alfworld.environment import AlfworldEnvironment

__all__ = ["AlfworldEnvironment"]
