"""What somebody who plays a game knows of it: nothing but what the texts have said so far.

Works on the texts of both releases, after any commands, sensible or not.
"""

import re
from dataclasses import dataclass

_NAME = re.compile(r"[a-z]+ \d+")
_SEEN = re.compile(r"(?:On the (\w+ \d+)|The (\w+ \d+) is open\. In it), you see (.*?)\.")
_CLOSED = re.compile(r"(?:The (\w+ \d+) is closed|You close the (\w+ \d+))\.")
_TAKEN = re.compile(r"You pick up the (\w+ \d+) from the (\w+ \d+)\.")
_PUT = re.compile(r"You (?:put|move) the (\w+ \d+) (?:in/on|to) the (\w+ \d+)\.")
_TREATED = re.compile(r"You (clean|heat|cool) the (\w+ \d+) using the (\w+ \d+)\.")
_TASK = re.compile(r"Your task is to: (.*)")

_GOALS = (
    re.compile(r"put (?P<two>two) (?P<thing>\w+) in (?P<target>\w+)"),
    re.compile(r"find (?P<two>two) (?P<thing>\w+) and put them in (?P<target>\w+)"),
    re.compile(r"put a (?P<treatment>clean|hot|cool) (?P<thing>\w+) in (?P<target>\w+)"),
    re.compile(r"(?P<treatment>clean|heat|cool) some (?P<thing>\w+) and put it in (?P<target>\w+)"),
    re.compile(r"put (?:a|some) (?P<thing>\w+) (?:in|on) (?P<target>\w+)"),
    re.compile(r"(?:look at|examine the) (?P<thing>\w+) (?:under|with) the (?P<light>\w+)"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a game asks for. Types are in lower case, as in the names that the game shows.

    Attributes:
        thing: the type of the object.
        target: the type of the receptacle that it goes to; of the lamp where `light`.
        treatment: "clean", "heat", "cool" or None.
        count: how many objects.
        light: the object is to be looked at under a lamp, not put anywhere.
    """

    thing: str
    target: str
    treatment: str | None = None
    count: int = 1
    light: bool = False


def read_goal(text: str) -> Goal:
    """The goal in a first observation or a task's sentence. ValueError where it is none of ALFWorld's wordings."""
    found = _TASK.search(text)
    sentence = (found.group(1) if found else text).strip().lower()
    for wording in _GOALS:
        match = wording.match(sentence)
        if match:
            words = match.groupdict()
            treatment = words.get("treatment")
            return Goal(
                thing=words["thing"],
                target=words.get("target") or words["light"],
                treatment="heat" if treatment == "hot" else treatment,
                count=2 if words.get("two") else 1,
                light="light" in words,
            )
    raise ValueError(
        f"task: was {sentence!r}; expected one of ALFWorld's wordings, such as 'put a clean mug in shelf.'"
    )


def kind(name: str) -> str:
    """The type in a name: "mug" of "mug 1"."""
    return name.partition(" ")[0]


class Memory:
    """Reads the texts of one game and answers questions about the room.

    Attributes:
        receptacles: every receptacle of the room, in the order of the first text.
        contents: receptacle -> the objects in it, for those that have been looked into.
        closed: receptacles known to be closed.
        here: the receptacles that are within reach.
        holding: the object in hand.
        treated: (treatment, object) pairs.
        says_move: the release says "move X to Y", not "put X in/on Y"; None until a text has shown which.
    """

    def __init__(self, first_observation: str) -> None:
        room, _, _ = first_observation.partition("Your task is to:")
        self.receptacles = _NAME.findall(room)
        self.contents: dict[str, list[str]] = {}
        self.closed: set[str] = set()
        self.here: set[str] = set()
        self.holding: str | None = None
        self.treated: set[tuple[str, str]] = set()
        self.says_move: bool | None = None
        self._neighbours: dict[str, set[str]] = {name: {name} for name in self.receptacles}

    def observe(self, command: str, observation: str) -> None:
        """Takes in the answer to a command."""
        command = command.strip().lower()
        if command.startswith("go to "):
            self._went(command.removeprefix("go to "), observation)
        for on, inside, names in _SEEN.findall(observation):
            self.contents[on or inside] = _NAME.findall(names)
            self.closed.discard(on or inside)
        for told, done in _CLOSED.findall(observation):
            self.closed.add(told or done)
        for thing, receptacle in _TAKEN.findall(observation):
            self.holding = thing
            self.contents[receptacle] = [other for other in self.contents.get(receptacle, []) if other != thing]
        for thing, receptacle in _PUT.findall(observation):
            self.holding = None
            self.contents.setdefault(receptacle, []).append(thing)
        for treatment, thing, _ in _TREATED.findall(observation):
            opposite = {"heat": "cool", "cool": "heat"}.get(treatment, "")
            self.treated.discard((opposite, thing))
            self.treated.add((treatment, thing))

    def where(self, wanted: str) -> list[tuple[str, str]]:
        """(object, receptacle) pairs of that type that have been seen, those within reach first."""
        seen = [(thing, place) for place, things in self.contents.items() for thing in things if kind(thing) == wanted]
        return sorted(seen, key=lambda pair: pair[1] not in self.here)

    def _went(self, receptacle: str, observation: str) -> None:
        if observation.startswith("You arrive at "):
            self.says_move = not observation.startswith("You arrive at loc ")
            self.here = self._neighbours.get(receptacle, {receptacle})
        elif receptacle in self._neighbours and self.here and receptacle not in self.here:
            # The current release refuses to go where one stands already: the receptacle is within reach.
            together = self.here | self._neighbours[receptacle]
            for name in together:
                self._neighbours[name] = together
            self.here = together
