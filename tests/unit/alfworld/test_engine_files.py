"""Reading game files: which release they are of, and what is refused by name."""

from typing import Any

import pytest
from alfworld_house import HOT_MUG_IN_CABINET, house

from prover.environments.alfworld.game import read_game
from prover.environments.alfworld.problem import UnknownGameError
from prover.environments.alfworld.wording import RELEASES, Release


def _changed(field: str, old: str, new: str, **options: Any) -> dict[str, object]:
    content = house(**options)
    text = str(content[field])
    assert old in text
    return {**content, field: text.replace(old, new)}


@pytest.mark.parametrize("release", RELEASES)
def test_the_release_is_read_from_the_file(release: Release) -> None:
    assert read_game(house(release=release)).release == release


@pytest.mark.parametrize("release", RELEASES)
def test_a_file_can_be_played_in_the_other_releases_words(release: Release) -> None:
    other: Release = "current" if release == "2021" else "2021"
    assert read_game(house(release=release), release=other) == read_game(house(release=other))


def test_the_two_releases_of_a_game_have_different_fingerprints() -> None:
    assert read_game(house(release="2021")).fingerprint != read_game(house(release="current")).fingerprint


def test_comments_and_spaces_in_the_domain_do_not_matter() -> None:
    content = _changed("pddl_domain", "(:action look", ";; one looks\n   (:action    look")
    assert read_game(content).release == "current"


@pytest.mark.parametrize(
    ("field", "old", "new", "named"),
    [
        ("pddl_domain", "(holdsAny ?a)", "(holdsAll ?a)", "domain: action pickupobject (differs)"),
        ("pddl_domain", "(:action help", "(:action assist", "domain: action help (missing)"),
        ("grammar", 'template :: "look"', 'template :: "see"', "grammar: action look (differs)"),
        ("grammar", "You are not carrying anything.", "Your hands are empty.", "grammar: grammar (differs)"),
        ("grammar", "action SliceObject", "action CutObject", "grammar: action CutObject (is new)"),
    ],
)
def test_an_unknown_domain_or_grammar_is_refused_by_the_name_of_what_differs(
    field: str, old: str, new: str, named: str
) -> None:
    with pytest.raises(UnknownGameError, match="against 'current'") as caught:
        read_game(_changed(field, old, new))
    assert named in str(caught.value)
    assert "alfworld-stock" in str(caught.value)


def test_an_action_that_stands_twice_is_a_difference() -> None:
    content = _changed("grammar", "action inventory {", "action look { template :: 'gaze'; }\n\naction inventory {")
    with pytest.raises(UnknownGameError, match=r"grammar: action look \(differs\)"):
        read_game(content)


def test_a_task_line_with_signs_of_the_grammar_is_refused() -> None:
    with pytest.raises(UnknownGameError, match=r"task: was 'Your task is to: use \{r\.name\}'"):
        read_game(house(task="use {r.name}"))


@pytest.mark.parametrize(
    ("goal", "named"),
    [
        (HOT_MUG_IN_CABINET.replace("(isHot ?o)", "(isFilled ?o)"), "(isfilled ?o)"),
        (HOT_MUG_IN_CABINET.replace("(and (heatable", "(or (heatable"), "expected and, exists and plain facts"),
        (HOT_MUG_IN_CABINET.replace("(objectType ?o MugType)", ""), "objecttype: was []"),
    ],
)
def test_an_unknown_goal_is_refused_by_name(goal: str, named: str) -> None:
    with pytest.raises(UnknownGameError) as caught:
        read_game(house(goal=goal))
    assert named in str(caught.value)


@pytest.mark.parametrize(
    ("facts", "named"),
    [
        ("(frozen Mug_bar_1)", "frozen: not a fact that ALFWorld starts with"),
        ("(openable Door_bar_1)", "door_bar_1: not declared"),
        ("(receptacleAtLocation Drawer_bar_1 loc_bar_3)", "drawer_bar_1: is at 2 places"),
        ("(atLocation agent1 loc_bar_1)", "expected one agent at one place"),
        ("(openable Drawer_bar_1 Mug_bar_1)", "openable: expected one argument"),
    ],
)
def test_facts_that_the_rules_do_not_cover_are_refused_by_name(facts: str, named: str) -> None:
    with pytest.raises(UnknownGameError) as caught:
        read_game(house(facts=facts))
    assert named in str(caught.value)


@pytest.mark.parametrize("field", ["pddl_domain", "grammar", "pddl_problem"])
def test_a_missing_field_is_named(field: str) -> None:
    content = house()
    del content[field]
    with pytest.raises(UnknownGameError, match=f"{field}: was NoneType"):
        read_game(content)
