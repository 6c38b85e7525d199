"""The judge's two tools: ranked lexical search over the failed runs' turns, and reading turns in full, by pages."""

from collections.abc import Mapping
from dataclasses import dataclass

import bm25s
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from prover.trajectory import Group, Trajectory
from services.judge.alignment import terms
from services.judge.fencing import count_tokens, cut, data_line, fence
from services.judge.previews import says_more, turn_line

_MOST_HITS = 20
_HIT_CHARS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call as the model wrote it. `id` is the server's, empty in the plain-text protocol."""

    name: str
    arguments: Mapping[str, object]
    id: str = ""


class Search(BaseModel):
    """Find turns of the failed trajectories by words."""

    model_config = ConfigDict(extra="ignore")
    query: str = Field(description="Words to look for.")
    k: int = Field(default=5, ge=1, description=f"How many turns to list, at most {_MOST_HITS}.")


class GetSegment(BaseModel):
    """Read turns of any trajectory in full. Long ones come in pages: ask again from next_turn and next_offset."""

    model_config = ConfigDict(extra="ignore")
    traj_id: str = Field(description="The id of a trajectory.")
    start_turn: int = Field(ge=0, description="The first turn to read; turns count from 0.")
    end_turn: int = Field(ge=0, description="The last turn to read.")
    offset: int = Field(default=0, ge=0, description="Characters of the first turn to skip.")


class Tools:
    """The tools over one group. Pages and hit lists are at most about `page_tokens` tokens long."""

    def __init__(self, group: Group, *, page_tokens: int) -> None:
        self._group = group
        self._page_tokens = page_tokens
        failed = [trajectory for trajectory in group.trajectories if not trajectory.success]
        self._places = [(trajectory, index) for trajectory in failed for index in range(len(trajectory.turns))]
        corpus = [list(terms(f"{run.turns[turn].observation} {run.turns[turn].text}")) for run, turn in self._places]
        self._index: bm25s.BM25 | None = None
        if any(corpus):
            self._index = bm25s.BM25()
            self._index.index(corpus, show_progress=False)

    def run(self, call: Call) -> str:
        """The tool's answer; what is wrong with the call, where something is."""
        try:
            if call.name == "search_trajectory":
                return self._search(Search.model_validate(call.arguments))
            if call.name == "get_segment":
                return self._get_segment(GetSegment.model_validate(call.arguments))
        except ValidationError as error:
            return f"{call.name}: {faults(error)}"
        return f"no such tool: {cut(call.name, 60)!r}; expected search_trajectory, get_segment or answer"

    def _search(self, asked: Search) -> str:
        words = list(terms(asked.query))
        scores = self._index.get_scores(words) if self._index is not None and words else None
        if scores is None or not (scores > 0).any():
            return "no turn of a failed trajectory holds any of these words"
        order = sorted(range(len(scores)), key=lambda place: (-float(scores[place]), place))
        lines: list[str] = []
        for place in order[: min(asked.k, _MOST_HITS)]:
            if not scores[place] > 0:
                break
            run, turn = self._places[place]
            line = turn_line(run, turn, observation_chars=_HIT_CHARS, action_chars=_HIT_CHARS, name=True)
            if lines and count_tokens("\n".join([*lines, line])) > self._page_tokens:
                break
            lines.append(line)
        return fence(lines)

    def _get_segment(self, asked: GetSegment) -> str:
        try:
            run = self._group.trajectory(asked.traj_id)
        except KeyError:
            known = data_line({"known": ", ".join(cut(one.id, 60) for one in self._group.trajectories)})
            return f"traj_id: no trajectory of that id; {known}"
        if asked.start_turn >= len(run.turns) or asked.end_turn < asked.start_turn:
            return f"turns {asked.start_turn} to {asked.end_turn}: expected turns between 0 and {len(run.turns) - 1}"
        return self._page(run, asked.start_turn, min(asked.end_turn, len(run.turns) - 1), asked.offset)

    def _page(self, run: Trajectory, start: int, end: int, offset: int) -> str:
        """Turns from `start` on until the page is full. One turn that is longer than a page goes on at `next_offset`,
        with what is left of what it read, then of what it wrote, then of its action."""
        lines: list[str] = []
        left = self._page_tokens
        for turn in range(start, end + 1):
            skip = offset if turn == start else 0
            line, rest = _page_line(run, turn, skip, left * 3 // 2)
            if lines and (rest or count_tokens(line) > left):
                return fence([*lines, data_line({"next_turn": turn, "next_offset": 0})])
            lines.append(line)
            if rest:
                return fence([*lines, data_line({"next_turn": turn, "next_offset": rest})])
            left -= count_tokens(line)
        return fence(lines)


def _page_line(run: Trajectory, turn: int, skip: int, room: int) -> tuple[str, int]:
    """One turn as a line of at most about `room` characters, and where it goes on (0: it is complete)."""
    room = max(room, 200)
    one = run.turns[turn]
    texts = {"read": one.observation, "wrote": one.text if says_more(one) else "", "action": one.action or ""}
    length = sum(map(len, texts.values()))
    if not skip and length <= room:
        return turn_line(run, turn, observation_chars=room, action_chars=room, name=True), 0
    fields: dict[str, object] = {"trajectory": run.id, "turn": turn, "from": skip}
    first = skip
    for name, text in texts.items():
        piece = text[max(first, 0) : max(first + room, 0)]
        if piece:
            fields[name] = piece
        first -= len(text)
    if one.action is None:
        fields["action"] = None
    if not one.valid:
        fields["rejected"] = True
    return data_line(fields), skip + room if skip + room < length else 0


def faults(error: ValidationError) -> str:
    """What is wrong, field by field, without the offending text."""
    return "; ".join(
        f"{'.'.join(map(str, one['loc'])) or 'arguments'}: {one['msg'][0].lower()}{one['msg'][1:]}"
        for one in error.errors(include_input=False, include_url=False, include_context=False)[:5]
    )
