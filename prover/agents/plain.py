"""The agent of the embedded policy: a bare transcript, one line a turn, as in a text adventure.

You are in the middle of a room. ...
> go to desk 1
On the desk 1, you see ...
>
"""

from prover.agents.agent import Action


class Plain:
    """Observation, a prompt sign, the command, a line feed."""

    name = "plain"
    stop_text = "\n"

    def opening(self, observation: str) -> str:
        """The first observation and the prompt sign."""
        return f"{observation}\n>"

    def reply(self, observation: str) -> str:
        """The sampled line feed has ended the command, so the observation follows at once."""
        return f"{observation}\n>"

    def action(self, text: str) -> Action:
        """The line, stripped. An empty line is no action."""
        command = text.strip()
        return Action(command=command or None)
