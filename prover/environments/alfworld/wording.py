"""The words of the two releases, where they differ, and the way both list things."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

Release: TypeAlias = Literal["2021", "current"]
"""2021: alfworld up to 0.3.5. current: 0.4 and later (December 2024)."""

RELEASES: tuple[Release, ...] = ("2021", "current")

PUT: dict[Release, str] = {"2021": "put {thing} in/on {receptacle}", "current": "move {thing} to {receptacle}"}
"""The command that puts a thing down."""

PUT_ANSWER: dict[Release, str] = {
    "2021": "You put the {thing} in/on the {receptacle}.",
    "current": "You move the {thing} to the {receptacle}.",
}

_COMMANDS = (
    ("look:", "look around your current location"),
    ("inventory:", "check your current inventory"),
    ("go to (receptacle):", "move to a receptacle"),
    ("open (receptacle):", "open a receptacle"),
    ("close (receptacle):", "close a receptacle"),
    ("take (object) from (receptacle):", "take an object from a receptacle"),
    ("move (object) to (receptacle):", "place an object in or on a receptacle"),
    ("examine (something):", "examine a receptacle or an object"),
    ("use (object):", "use an object"),
    ("heat (object) with (receptacle):", "heat an object using a receptacle"),
    ("clean (object) with (receptacle):", "clean an object using a receptacle"),
    ("cool (object) with (receptacle):", "cool an object using a receptacle"),
    ("slice (object) with (object):", "slice an object using a sharp object"),
)


def help_text() -> str:
    """The answer to `help` in the current release; 2021 has no such command.

    Meanings stand in one column, but for `move`, which the benchmark sets two short.
    """
    lines = (f"  {form:<{31 if form.startswith('move') else 33}} {meaning}" for form, meaning in _COMMANDS)
    return "Available commands:\n" + "\n".join(lines) + "\n"


def listing(names: Sequence[str]) -> str:
    """
    >>> listing([]), listing(["a cup 1"]), listing(["a cup 1", "a pan 1"])
    ('nothing', 'a cup 1', 'a cup 1, and a pan 1')
    """
    if not names:
        return "nothing"
    if len(names) == 1:
        return names[0]
    return ", ".join(names[:-1]) + ", and " + names[-1]
