"""The state of a game: eleven integers, most of them used as bit sets. An immutable value; see the package's docstring.

Objects, receptacles and places are numbered along their sorted mangled names, so the numbering follows from the game's
file alone. A set of objects has bit `o` for object `o`. A relation is a row of objects for each receptacle or place:
with n objects, bit `r * n + o`.
"""

from hashlib import blake2b
from typing import NamedTuple


class State(NamedTuple):
    """What may differ between two moments of one game, as far as any later text, command or outcome can depend on it.

    A named tuple, not a dataclass: it is made at every step, and this is the cheapest immutable value Python has.

    Attributes:
        place: the number of the place where the agent stands.
        holding: the set of objects in hand, one at most.
        inside: rows by receptacle: objects that are in or on it. An object may be in several (a drawer of a dresser).
        left: rows by receptacle: objects taken out of it and not put back. `look` calls them "next to it".
        at: rows by place: objects that are there, in a receptacle or not.
        opened: the set of open receptacles.
        clean, hot, cool, toggled, sliced: sets of objects.
    """

    place: int
    holding: int = 0
    inside: int = 0
    left: int = 0
    at: int = 0
    opened: int = 0
    clean: int = 0
    hot: int = 0
    cool: int = 0
    toggled: int = 0
    sliced: int = 0


FIELDS: tuple[str, ...] = State._fields


def digest(state: State, *, fingerprint: str, release: str) -> str:
    """A short name of a state of the game with that fingerprint: "2021-" or "current-" and 32 hexadecimal digits.

    Hashes the fingerprint and every field that is not 0 as `name=hex`, so a later version may add fields without
    renaming old states, and two releases of a game never share a name.
    """
    facts = "".join(f"{name}={value:x};" for name, value in zip(FIELDS, state, strict=True) if value)
    return f"{release}-{blake2b(f'{fingerprint};{facts}'.encode(), digest_size=16).hexdigest()}"


def pack(state: State) -> bytes:
    """The state as bytes; `unpack` reads them. For each field its length (2 bytes) and its value, little-endian."""
    parts: list[bytes] = []
    for value in state:
        size = (value.bit_length() + 7) >> 3
        parts.append(size.to_bytes(2, "little"))
        parts.append(value.to_bytes(size, "little"))
    return b"".join(parts)


def unpack(data: bytes) -> State:
    """The state that `pack` wrote. ValueError where the bytes are not one."""
    values: list[int] = []
    start = 0
    while start < len(data):
        size = int.from_bytes(data[start : start + 2], "little")
        start += 2 + size
        values.append(int.from_bytes(data[start - size : start], "little"))
    if start != len(data) or len(values) != len(FIELDS):
        raise ValueError(f"state: {len(data)} bytes hold {len(values)} fields; expected {len(FIELDS)}")
    return State(*values)
