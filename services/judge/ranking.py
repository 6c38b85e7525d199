"""Choosing several segments: the best ones that share no turn."""

from collections.abc import Sequence

from prover.credit.segments import overlap
from prover.trajectory import Segment


def disjoint_best(segments: Sequence[Segment], scores: Sequence[float], most: int) -> list[int]:
    """Indices of at most `most` segments, best score first, each sharing no turn with one before it.

    Of equal scores the shorter segment comes first, then the earlier.
    """
    order = sorted(
        range(len(segments)), key=lambda index: (-scores[index], len(segments[index]), segments[index].first_turn)
    )
    chosen: list[int] = []
    for index in order:
        if len(chosen) == most:
            break
        if not any(overlap(segments[index], segments[other]) for other in chosen):
            chosen.append(index)
    return chosen
