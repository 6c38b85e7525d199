"""Which segments of an anchor may be proposed: what a judge's answer is checked against, and what `random` draws from.

The rules (ProVer, arXiv 2609.36178, Propose), and what we decided where the paper is silent:

1. Bounds: both ends are turns of the trajectory.
2. Length: at most 4 action turns. A turn that left the environment alone on purpose (a thought: `action` is None and
   `valid` is True) may be inside. It does not count towards the length, but a segment needs at least one action.
3. No turn inside has `valid` False: malformed or rejected actions earn nothing, even if recovering from them helped.
4. Nonterminal: at least one action of the trajectory comes after the segment. After the last action nothing is left to
   be decided, and the outcome already credits it.
"""

from prover.trajectory import Segment, Trajectory

MAX_ACTION_TURNS = 4
"""The paper's longest segment."""


def segment_fault(segment: Segment, anchor: Trajectory, *, max_action_turns: int = MAX_ACTION_TURNS) -> str | None:
    """What is wrong with a segment of the anchor, in words a judge can act on; None where nothing is."""
    if segment.trajectory_id != anchor.id:
        return f"trajectory_id: was {segment.trajectory_id!r}; expected the successful trajectory, {anchor.id!r}"
    first, last = segment.first_turn, segment.last_turn
    if last >= len(anchor.turns):
        return f"last_turn: was {last}; expected at most {_last_allowed(anchor)} in a trajectory of {len(anchor.turns)}"
    inside = anchor.turns[first : last + 1]
    rejected = [first + offset for offset, turn in enumerate(inside) if not turn.valid]
    if rejected:
        return f"turns {first} to {last}: turn {rejected[0]} was malformed or rejected; expected accepted actions alone"
    actions = sum(turn.action is not None for turn in inside)
    if actions == 0:
        return f"turns {first} to {last}: no action in them; expected at least one"
    if actions > max_action_turns:
        return f"turns {first} to {last}: {actions} actions; expected at most {max_action_turns}"
    if not any(turn.action is not None for turn in anchor.turns[last + 1 :]):
        return f"last_turn: was {last}, no action comes after it; expected at most {_last_allowed(anchor)}"
    return None


def valid_segments(anchor: Trajectory, *, max_action_turns: int = MAX_ACTION_TURNS) -> tuple[Segment, ...]:
    """Every segment without a fault, in the order of their first and then their last turn."""
    found: list[Segment] = []
    for first in range(len(anchor.turns)):
        actions = 0
        for last in range(first, len(anchor.turns)):
            actions += anchor.turns[last].action is not None
            if not anchor.turns[last].valid or actions > max_action_turns:
                break  # and so would every longer one be
            segment = Segment(trajectory_id=anchor.id, first_turn=first, last_turn=last)
            if segment_fault(segment, anchor, max_action_turns=max_action_turns) is None:
                found.append(segment)
    return tuple(found)


def overlap(one: Segment, other: Segment) -> bool:
    """Whether two segments share a turn."""
    return (
        one.trajectory_id == other.trajectory_id
        and one.first_turn <= other.last_turn
        and other.first_turn <= one.last_turn
    )


def _last_allowed(anchor: Trajectory) -> int:
    """The turn before the last action; -1 where the trajectory has no room for a segment."""
    actions = [index for index, turn in enumerate(anchor.turns) if turn.action is not None]
    return actions[-1] - 1 if actions else -1
