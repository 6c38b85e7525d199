"""What an agent is: context from history, action from text.

Contexts are append-only token lists. The first one is `tokenize(opening(observation))`; after a turn comes
`context + sampled token ids + tokenize(reply(observation))`. Sampled ids are kept as they were, never tokenised again.
"""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What a text was read as. `command` is None where no action can be read in it."""

    command: str | None


class Agent(Protocol):
    """A prompt format. Pure functions of text."""

    name: str
    stop_text: str
    """What ends a turn; it is one token of the policy's tokenizer."""

    def opening(self, observation: str) -> str:
        """Everything the policy reads before its first turn."""
        ...

    def reply(self, observation: str) -> str:
        """What is appended after a sampled turn: the environment's answer and the cue for the next turn."""
        ...

    def action(self, text: str) -> Action:
        """Reads the command in a sampled text (stop token included or not)."""
        ...
