"""The judge's tool `get_segment`: by pages, every character of a turn can be read."""

import json
from dataclasses import replace

import pytest

from prover.trajectory import Group, Turn
from services.judge.fencing import count_tokens
from services.judge.tools import Call, Tools
from tests.unit.judge.builders import bell

PAGE_TOKENS = 250


def numbered(name: str, chars: int) -> str:
    """A text in which every place is told apart, with what a fence escapes."""
    return "".join(f"{name}<{number}>\n" for number in range(chars))[:chars]


def with_turn(turn: Turn) -> Group:
    """The bell's group; turn 1 of its first failed run is this one."""
    group = bell()
    failed = group.trajectories[0]
    changed = replace(failed, turns=(failed.turns[0], turn, *failed.turns[2:]))
    return replace(group, trajectories=(changed, *group.trajectories[1:]))


def read_all(group: Group, *, first: int, last: int) -> tuple[dict[int, dict[str, str]], list[str]]:
    """What a model reads that goes on from `next_turn` and `next_offset`: the texts of each turn, and the pages."""
    tools = Tools(group, page_tokens=PAGE_TOKENS)
    asked: dict[str, object] = {"traj_id": "t0", "start_turn": first, "end_turn": last}
    found: dict[int, dict[str, str]] = {}
    pages: list[str] = []
    while len(pages) < 200:
        pages.append(tools.run(Call(name="get_segment", arguments=asked)))
        following: dict[str, int] = {}
        for line in map(json.loads, pages[-1].splitlines()[1:-1]):
            if "next_turn" in line:
                following = line
                continue
            texts = found.setdefault(line["turn"], {})
            for name in ("read", "wrote", "action"):
                texts[name] = texts.get(name, "") + (line.get(name) or "")
        if not following:
            return found, pages
        asked |= {"start_turn": following["next_turn"], "offset": following["next_offset"]}
    raise AssertionError("the pages do not end")


@pytest.mark.parametrize(
    ("observation", "wrote", "action"),
    [(20, 0, 6_000), (3_000, 0, 6_000), (20, 6_000, 30), (2_000, 3_000, 6_000), (0, 700, 0), (6_000, 0, 20)],
)
def test_every_character_of_a_turn_can_be_read(observation: int, wrote: int, action: int) -> None:
    acted = numbered("a", action)
    text = numbered("w", wrote) or acted
    turn = Turn(observation=numbered("o", observation), text=text, action=acted or None, valid=True)
    group = with_turn(turn)
    found, pages = read_all(group, first=0, last=3)
    assert found[1] == {"read": turn.observation, "wrote": numbered("w", wrote), "action": acted}
    for index in (0, 2, 3):
        other = group.trajectories[0].turns[index]
        assert found[index] == {"read": other.observation, "wrote": "", "action": other.action}
    assert len(pages) > 1
    assert max(map(count_tokens, pages)) < 4 * PAGE_TOKENS


def test_every_page_of_a_rejected_turn_says_so_and_where_it_begins() -> None:
    acted = numbered("a", 1_000)
    _, pages = read_all(with_turn(Turn(observation="o", text=acted, action=acted, valid=False)), first=1, last=1)
    lines = [json.loads(page.splitlines()[1]) for page in pages]
    assert all(line["rejected"] for line in lines)
    assert [line["from"] for line in lines] == [
        0,
        *(json.loads(page.splitlines()[2])["next_offset"] for page in pages[:-1]),
    ]


def test_an_offset_past_the_end_of_a_turn_goes_on_with_the_next() -> None:
    call = Call(name="get_segment", arguments={"traj_id": "t0", "start_turn": 0, "end_turn": 1, "offset": 10**9})
    lines = [json.loads(line) for line in Tools(bell(), page_tokens=PAGE_TOKENS).run(call).splitlines()[1:-1]]
    assert [line["turn"] for line in lines] == [0, 1]
    assert "action" not in lines[0]
    assert lines[1]["action"] == "go chest 1"
