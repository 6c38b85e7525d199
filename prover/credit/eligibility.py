"""Which groups are worth verifying, and which of their trajectories is the anchor.

ProVer (arXiv 2609.36178), Propose: a group of G trajectories is eligible when its outcomes are mixed and at most
floor(3 G / 8) of them are successes (3 of 8 in the paper): where most attempts succeed, the outcome itself already
says enough. The anchor is the successful trajectory with the fewest turns.
"""

from math import floor

from prover.trajectory import Group, Trajectory

MAX_SUCCESS_SHARE = 3 / 8
"""The paper's 3 of 8."""


def ineligible_because(successes: int, total: int, *, max_share: float = MAX_SUCCESS_SHARE) -> str | None:
    """Why a group of `total` trajectories with `successes` successes is left to plain GRPO; None where it is eligible.

    The bound is floor(max_share * total), and never the whole group: a group without a failure has no contrast. Groups
    of fewer than ceil(1 / max_share) trajectories (3 by default) are never eligible. Raises ValueError for counts that
    cannot be.

    >>> ineligible_because(3, 8) is None
    True
    >>> ineligible_because(4, 8)
    '4 of 8 trajectories succeeded; at most 3 may'
    """
    if total < 1 or not 0 <= successes <= total:
        raise ValueError(f"successes: was {successes} of {total}; expected 0 <= successes <= total and total >= 1")
    if not 0.0 < max_share <= 1.0:
        raise ValueError(f"max_share: was {max_share}; expected a share above 0 and at most 1")
    if successes == 0:
        return f"none of {total} trajectories succeeded; there is no anchor"
    if successes == total:
        return f"all of {total} trajectories succeeded; there is no failure to contrast with"
    most = floor(max_share * total)
    if successes > most:
        return f"{successes} of {total} trajectories succeeded; at most {most} may"
    return None


def eligible(successes: int, total: int, *, max_share: float = MAX_SUCCESS_SHARE) -> bool:
    """Whether outcomes are mixed and 1 <= successes <= floor(max_share * total).

    >>> [eligible(successes, 8) for successes in (0, 1, 3, 4, 8)]
    [False, True, True, False, False]
    """
    return ineligible_because(successes, total, max_share=max_share) is None


def anchor(group: Group) -> Trajectory:
    """The successful trajectory with the fewest turns; of several, the one that stands first.

    Raises ValueError where no trajectory succeeded.
    """
    successes = [trajectory for trajectory in group.trajectories if trajectory.success]
    if not successes:
        raise ValueError("trajectories: none succeeded; expected at least one success to be the anchor")
    return min(successes, key=lambda trajectory: len(trajectory.turns))
