"""The names that players see: `mug_bar__minus_01...` is "mug 2".

Things of one kind are numbered backwards along the sorted list of their mangled names: of three mugs the first is
"mug 3". A thing counts when it stands in a fact of the start. A name without coordinates gets no number but keeps the
space before it, so that no command can ever name it.
"""

from collections import Counter
from collections.abc import Iterable


def display_names(mangled: Iterable[str]) -> dict[str, str]:
    """Mangled name -> display name, for all the things of one game."""
    ordered = sorted(set(mangled))
    left = Counter(_kind(name) for name in ordered if "_bar_" in name)
    shown: dict[str, str] = {}
    for name in ordered:
        kind = _kind(name)
        if "_bar_" in name:
            shown[name] = f"{kind} {left[kind]}"
            left[kind] -= 1
        else:
            shown[name] = f"{kind} "
    return shown


def _kind(name: str) -> str:
    """`sink_bar_..._bar_sinkbasin` is a "sinkbasin": a sink and its basin share their first word."""
    head, _, coordinates = name.partition("_bar_")
    for mangled, sign in (("_minus_", "-"), ("_plus_", "+"), ("_dot_", "."), ("_comma_", ",")):
        head = head.replace(mangled, sign)
    return head + "basin" if coordinates and "basin" in name else head
