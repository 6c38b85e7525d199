"""What the judge reads first: the whole anchor and short previews of the failed runs, within a token budget.

A group of 16 runs of 50 turns of 2,000 tokens is far longer than any context. So texts are shortened step by step until
they fit: observations first, then actions, then whole turns out of the middle. The tools read everything in full.
"""

from collections.abc import Sequence

from prover.trajectory import Group, Trajectory, Turn
from services.judge.fencing import count_tokens, cut, data_line, fence

_ANCHOR_SHARE = 0.6
_ANCHOR_CHARS = (1_000_000, 8_000, 4_000, 2_000, 1_000, 500, 250, 120, 60)
_PREVIEW_CHARS = (160, 80, 40, 0)


def brief(group: Group, anchor: Trajectory, *, max_tokens: int) -> str:
    """The first message: anchor, then previews of the failed runs, in at most about `max_tokens` tokens."""
    failed = [trajectory for trajectory in group.trajectories if not trajectory.success]
    intro = (
        f"The successful trajectory is {_name(anchor.id)}, turns 0 to {len(anchor.turns) - 1}. "
        f"{len(failed)} failed trajectories follow it as previews."
    )
    left = max_tokens - count_tokens(intro) - 64
    whole = _anchor_lines(anchor, int(left * _ANCHOR_SHARE))
    left -= count_tokens("\n".join(whole))
    previews: list[str] = []
    for index, trajectory in enumerate(failed):
        lines = _preview_lines(trajectory, left // (len(failed) - index))
        left -= count_tokens("\n".join(lines))
        previews += lines
    return "\n\n".join([intro, "Successful trajectory:\n" + fence(whole), "Failed trajectories:\n" + fence(previews)])


def turn_line(trajectory: Trajectory, index: int, *, observation_chars: int, action_chars: int, name: bool) -> str:
    """One turn as a data line: what the policy read before it acted, and what it did."""
    turn = trajectory.turns[index]
    fields: dict[str, object] = {"trajectory": trajectory.id} if name else {}
    fields["turn"] = index
    if observation_chars:
        fields["read"] = cut(turn.observation, observation_chars)
    fields["action"] = None if turn.action is None else cut(turn.action, action_chars)
    if says_more(turn):
        fields["wrote"] = cut(turn.text, action_chars)
    if not turn.valid:
        fields["rejected"] = True
    return data_line(fields)


def says_more(turn: Turn) -> bool:
    """The policy wrote something beside its action."""
    return turn.text.strip() != (turn.action or "").strip()


def _anchor_lines(anchor: Trajectory, max_tokens: int) -> list[str]:
    lines: list[str] = []
    for chars in _ANCHOR_CHARS:
        lines = [
            turn_line(anchor, index, observation_chars=chars, action_chars=chars, name=False)
            for index in range(len(anchor.turns))
        ]
        if count_tokens("\n".join(lines)) <= max_tokens:
            return lines
    return _without_middle(lines, max_tokens)


def _preview_lines(trajectory: Trajectory, max_tokens: int) -> list[str]:
    head = data_line({"trajectory": trajectory.id, "turns": len(trajectory.turns), "ended": trajectory.ending.value})
    left = max_tokens - count_tokens(head)
    lines: list[str] = []
    for chars in _PREVIEW_CHARS:
        lines = [
            turn_line(trajectory, index, observation_chars=chars, action_chars=max(chars, 40), name=False)
            for index in range(len(trajectory.turns))
        ]
        if count_tokens("\n".join(lines)) <= left:
            return [head, *lines]
    return [head, *_without_middle(lines, left)]


def _without_middle(lines: Sequence[str], max_tokens: int) -> list[str]:
    """As many of the first and last lines as fit, and a line that says how many are missing."""
    kept = len(lines)
    while kept > 0:
        kept -= 1
        first, last = lines[: -(-kept // 2)], lines[len(lines) - kept // 2 :]
        shown = [*first, data_line({"turns left out": len(lines) - kept}), *last]
        if count_tokens("\n".join(shown)) <= max_tokens:
            return shown
    return [data_line({"turns left out": len(lines)})]


def _name(trajectory_id: str) -> str:
    return data_line({"trajectory_id": cut(trajectory_id, 200)})
