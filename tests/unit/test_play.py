"""Playing by hand: what the player types and what stands on the screen."""

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from prover.environments.alfworld.expert import plan
from prover.environments.alfworld.generate import generate
from prover.play import play

_GAME = "generated/pick_heat_then_place_in_recep/4"


def _play(*lines: str, environment: str = "alfworld", task_id: str | None = _GAME) -> tuple[bool, str]:
    """Types the lines, then closes the input. Whether the game was solved, and the screen."""
    typed = iter(lines)

    def ask() -> str:
        try:
            return next(typed)
        except StopIteration:
            raise EOFError from None

    console = Console(record=True, width=200, file=StringIO())
    solved = play(environment, task_id, console=console, ask=ask)
    return solved, console.export_text()


def _solution() -> list[str]:
    return plan(generate("pick_heat_then_place_in_recep", 4))


def test_a_solution_typed_by_hand_solves_the_game() -> None:
    solved, screen = _play(*_solution())
    assert solved
    assert f"Solved in {len(_solution())} commands." in screen


def test_leaving_early_is_not_a_success() -> None:
    solved, screen = _play(*_solution()[:-1], "quit", _solution()[-1])
    assert not solved
    assert "Solved" not in screen


def test_undo_is_a_fork_back_to_before_the_last_command() -> None:
    first, *rest = _solution()
    solved, screen = _play("undo", first, "look", "undo", "undo", first, *rest, "undo", rest[-1])
    assert solved
    assert "There is nothing to undo." in screen
    assert "Undone. -= Welcome to TextWorld, ALFRED! =-" in screen
    assert screen.count(f"Solved in {len(_solution())} commands.") == 2


def test_after_the_end_only_undo_leads_on() -> None:
    solved, screen = _play(*_solution(), "look")
    assert solved
    assert "The game is over: undo or quit." in screen


def test_following_the_hints_solves_the_game() -> None:
    lines: list[str] = []
    for _ in range(40):
        solved, screen = _play(*lines, "hint")
        if solved:
            break
        lines.append(screen.rstrip().splitlines()[-1].strip())
    assert solved


def test_a_number_chooses_from_the_list_of_commands() -> None:
    _, screen = _play("commands", "1")
    assert "  1 " in screen
    assert "> go to " in screen or "> close " in screen or "> examine " in screen


def test_what_the_game_does_not_understand_changes_nothing() -> None:
    _, screen = _play("sing [bold]loudly[/bold]", "")
    assert "Nothing happens." in screen


def test_without_a_task_a_game_is_drawn_and_named() -> None:
    _, screen = _play(task_id=None)
    assert "alfworld: generated/" in screen


def test_a_game_can_be_named_by_its_file(tmp_path: Path) -> None:
    folder = tmp_path / "a game"
    folder.mkdir()
    (folder / "game.tw-pddl").write_text(json.dumps(generate("pick_two_obj_and_place", 3)))
    _, by_file = _play(task_id=str(folder / "game.tw-pddl"))
    _, by_folder = _play(task_id=str(folder))
    assert "Your task is to: " in by_file
    assert by_file == by_folder


def test_other_environments_are_played_without_hints() -> None:
    solved, screen = _play("hint", *["open red door"] * 3, environment="chain", task_id="3/")
    assert solved
    assert "There is no expert for this environment." in screen


def test_an_environment_without_a_task_says_what_it_needs() -> None:
    with pytest.raises(ValueError, match="expected the id of a task of 'chain'"):
        _play(environment="chain", task_id=None)
