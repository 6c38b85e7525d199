"""What may be proposed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prover.credit.segments import overlap, segment_fault, valid_segments
from prover.trajectory import Segment
from tests.unit.judge.builders import trajectory


def segment(first: int, last: int, name: str = "t") -> Segment:
    return Segment(trajectory_id=name, first_turn=first, last_turn=last)


def pairs(actions: list[str | None]) -> list[tuple[int, int]]:
    found = valid_segments(trajectory("t", actions, success=True))
    return [(one.first_turn, one.last_turn) for one in found]


def test_every_segment_of_at_most_four_turns_before_the_last_is_valid() -> None:
    assert pairs(["a", "b", "c"]) == [(0, 0), (0, 1), (1, 1)]
    assert max(last - first + 1 for first, last in pairs(["a"] * 9)) == 4
    assert max(last for _, last in pairs(["a"] * 9)) == 7


def test_a_rejected_turn_is_never_inside() -> None:
    assert pairs(["a", "!b", "c", "d"]) == [(0, 0), (2, 2)]


def test_a_thought_may_be_inside_and_does_not_count() -> None:
    long_enough = ["a", None, "b", "c", None, "d", "end"]
    assert (0, 5) in pairs(long_enough)
    assert (1, 1) not in pairs(long_enough)


def test_a_segment_after_which_only_thoughts_remain_is_terminal() -> None:
    assert pairs(["a", "b", None]) == [(0, 0)]


def test_a_trajectory_of_one_action_has_no_segment() -> None:
    assert pairs(["a"]) == []
    assert pairs([None, "a", None]) == []


@pytest.mark.parametrize(
    ("first", "last", "name", "says"),
    [
        (0, 9, "t", "last_turn: was 9; expected at most 6"),
        (6, 8, "t", "last_turn: was 8; expected at most 6"),
        (0, 1, "other", "trajectory_id: was 'other'; expected the successful trajectory, 't'"),
        (1, 5, "t", "turn 5 was malformed or rejected"),
        (0, 4, "t", "5 actions; expected at most 4"),
        (7, 7, "t", "no action comes after it"),
    ],
)
def test_a_fault_says_what_was_there_and_what_was_expected(first: int, last: int, name: str, says: str) -> None:
    anchor = trajectory("t", ["a", "b", "c", "d", "e", "!f", "g", "h"], success=True)
    assert says in str(segment_fault(segment(first, last, name), anchor))


@given(actions=st.lists(st.sampled_from(["a", "b", "!c", None]), min_size=1, max_size=10))
def test_valid_segments_are_exactly_those_without_a_fault(actions: list[str | None]) -> None:
    anchor = trajectory("t", actions, success=True)
    every = [segment(first, last) for first in range(len(actions)) for last in range(first, len(actions) + 1)]
    assert list(valid_segments(anchor)) == [one for one in every if segment_fault(one, anchor) is None]


def test_segments_overlap_where_they_share_a_turn_of_one_trajectory() -> None:
    assert overlap(segment(1, 3), segment(3, 4))
    assert not overlap(segment(1, 2), segment(3, 4))
    assert not overlap(segment(1, 3), segment(1, 3, "other"))
