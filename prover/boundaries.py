"""What the boundaries of an analysis are called, wherever outcomes are counted: in the store, in queues, in pull mode.

The first segment's are "before" and "after", those of the second "before-2" and "after-2", and so on. Where a segment
begins where another one ends, both mean one state: it has one name, that of the segment which stands first, and its
continuations count for both.
"""

import re
from collections.abc import Mapping, Sequence

from prover.trajectory import Boundary, Segment

SIDE = re.compile(r"(?:before|after)(?:-[1-9]\d{0,3})?")
"""What a name looks like."""


def sides(segments: Sequence[Segment]) -> tuple[tuple[str, str], ...]:
    """The names of each segment's boundaries: (before it, after it).

    >>> one = Segment(trajectory_id="t0", first_turn=2, last_turn=3)
    >>> other = Segment(trajectory_id="t0", first_turn=4, last_turn=4)
    >>> sides([one, other])
    (('before', 'after'), ('after', 'after-2'))
    """
    names = {boundary: name for name, boundary in boundaries(segments).items()}
    return tuple((names[segment.before], names[segment.after]) for segment in segments)


def boundaries(segments: Sequence[Segment]) -> Mapping[str, Boundary]:
    """The boundaries by name, each once."""
    names: dict[Boundary, str] = {}
    for number, segment in enumerate(segments, start=1):
        suffix = "" if number == 1 else f"-{number}"
        names.setdefault(segment.before, f"before{suffix}")
        names.setdefault(segment.after, f"after{suffix}")
    return {name: boundary for boundary, name in names.items()}
