"""Prompt formats: context from history, action from text."""

from collections.abc import Callable, Mapping

from prover.agents.agent import Action, Agent
from prover.agents.chatml import ChatML
from prover.agents.plain import Plain

AGENTS: Mapping[str, Callable[[], Agent]] = {"plain": Plain, "chatml": ChatML}

__all__ = ["AGENTS", "Action", "Agent", "ChatML", "Plain", "make"]


def make(name: str) -> Agent:
    """The agent of that name. ValueError lists the known ones."""
    if name not in AGENTS:
        raise ValueError(f"agent: was {name!r}; expected one of {', '.join(sorted(AGENTS))}")
    return AGENTS[name]()
