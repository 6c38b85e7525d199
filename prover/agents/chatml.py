"""The agent for chat models that speak ChatML (Qwen, SmolLM2 and others): observations are user messages.

Thinking is allowed: the last line that begins with "Action:" is the command; without one, the last line is.
"""

from prover.agents.agent import Action

SYSTEM = (
    "You act in a household through text commands. Each message tells you what you see. Answer with one command, "
    "for example 'go to desk 1', 'open drawer 2', 'take mug 1 from desk 1', 'move mug 1 to shelf 1', "
    "'examine bowl 1', 'use desklamp 1', 'heat egg 1 with microwave 1', 'look' or 'inventory'."
)


class ChatML:
    """One system message, then user and assistant messages in turn."""

    name = "chatml"
    stop_text = "<|im_end|>"

    def opening(self, observation: str) -> str:
        """The system message, the first observation and the cue for the first turn."""
        return f"<|im_start|>system\n{SYSTEM}<|im_end|>\n{_user(observation)}"

    def reply(self, observation: str) -> str:
        """Follows the sampled end-of-message token."""
        return f"\n{_user(observation)}"

    def action(self, text: str) -> Action:
        """The command of the last "Action:" line, or else the last line that is not empty."""
        lines = [line.strip() for line in text.removesuffix(self.stop_text).splitlines() if line.strip()]
        marked = [line.split(":", 1)[1].strip() for line in lines if line.lower().startswith("action:")]
        command = marked[-1] if marked else (lines[-1] if lines else "")
        return Action(command=command or None)


def _user(text: str) -> str:
    return f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
