"""The life of an analysis: the states, and which may follow which.

An end state is final. Every move is checked by `check_move`, in the one place that writes states (`prover.store`).
"""

from collections.abc import Mapping
from enum import StrEnum


class Status(StrEnum):
    """Where an analysis stands."""

    QUEUED = "queued"  # accepted, not looked at yet
    PROPOSING = "proposing"  # the judge is reading
    VERIFYING = "verifying"  # continuations are being played
    DONE = "done"  # advantages with evidence
    NOT_ELIGIBLE = "not_eligible"  # plain GRPO: nothing to contrast, or too many successes
    NO_PROPOSAL = "no_proposal"  # plain GRPO: the judge named no valid segment
    NOT_RESTORABLE = "not_restorable"  # plain GRPO: a boundary did not come back as it was recorded
    STALE = "stale"  # plain GRPO: the policy has moved on
    CANCELLED = "cancelled"
    FAILED = "failed"  # with a reason that a person can act on


_ANYWHERE = frozenset({Status.CANCELLED, Status.FAILED})

MOVES: Mapping[Status, frozenset[Status]] = {
    Status.QUEUED: frozenset({Status.PROPOSING, Status.NOT_ELIGIBLE, Status.STALE}) | _ANYWHERE,
    Status.PROPOSING: frozenset({Status.VERIFYING, Status.DONE, Status.NO_PROPOSAL, Status.STALE}) | _ANYWHERE,
    Status.VERIFYING: frozenset({Status.DONE, Status.NOT_RESTORABLE, Status.STALE}) | _ANYWHERE,
    Status.DONE: frozenset(),
    Status.NOT_ELIGIBLE: frozenset(),
    Status.NO_PROPOSAL: frozenset(),
    Status.NOT_RESTORABLE: frozenset(),
    Status.STALE: frozenset(),
    Status.CANCELLED: frozenset(),
    Status.FAILED: frozenset(),
}

END_STATES = frozenset(status for status, following in MOVES.items() if not following)


class IllegalMove(Exception):
    """A state was asked to follow one that it may not follow."""


def check_move(current: Status, following: Status) -> None:
    """Raises IllegalMove unless `following` may come after `current`."""
    if following not in MOVES[current]:
        allowed = ", ".join(sorted(MOVES[current])) or "nothing: it is an end state"
        raise IllegalMove(f"status: {current.value} may not become {following.value}; expected {allowed}")
