"""The rules of ALFWorld's games, oddities included, in a kitchen made by hand (see tests/alfworld_house.py)."""

import pytest
from alfworld_house import HOT_MUG_IN_CABINET, TWO_MUGS_ON_SIDETABLE, WATCH_BY_THE_LAMP, house

from prover.environments.alfworld.engine import commands, opening, play
from prover.environments.alfworld.game import Game, read_game
from prover.environments.alfworld.state import State
from prover.environments.alfworld.wording import Release


class Player:
    """Plays one game of the house; remembers the state that the last command led to."""

    def __init__(self, **options: str) -> None:
        self.game: Game = read_game(house(**options))  # type: ignore[arg-type]
        self.state: State = self.game.start

    def __call__(self, *given: str) -> str:
        answer = ""
        for command in given:
            self.state, answer, _ = play(self.game, self.state, command)
        return answer

    @property
    def commands(self) -> list[str]:
        return commands(self.game, self.state)

    @property
    def won(self) -> bool:
        return self.game.won(self.state)


def test_a_game_opens_with_the_room_and_the_task() -> None:
    assert opening(read_game(house(task="put a hot mug in cabinet."))) == (
        "-= Welcome to TextWorld, ALFRED! =-\n\n"
        "You are in the middle of a room. Looking quickly around you, you see a cabinet 1, a countertop 1, a drawer 1,"
        " a fridge 1, a microwave 1, a sidetable 1, and a sinkbasin 1.\n\n"
        "Your task is to: put a hot mug in cabinet."
    )


def test_things_of_a_kind_are_numbered_backwards_along_their_mangled_names() -> None:
    game = read_game(house())
    assert game.objects == (
        "apple 1", "box 1", "desklamp 1", "egg 1", "knife 1", "mug 2", "mug 1", "watch 2", "watch 1",
    )  # fmt: skip


def test_look_in_the_middle_of_the_room_sees_nothing() -> None:
    play_it = Player()
    expected = "You are in the middle of a room. Looking quickly around you, you see nothing."
    assert play_it("look") == expected


@pytest.mark.parametrize(("release", "where"), [("2021", "loc 5"), ("current", "sidetable 1")])
def test_the_releases_name_arrival_differently(release: Release, where: str) -> None:
    expected = f"You arrive at {where}. On the sidetable 1, you see a watch 2, and a watch 1."
    if release == "2021":
        expected = expected.replace("loc 5", "loc 1")  # seven places are numbered backwards
    assert Player(release=release)("go to sidetable 1") == expected


def test_one_cannot_go_to_where_one_stands_nor_to_a_second_receptacle_there() -> None:
    player = Player()
    player("go to countertop 1")
    assert player("go to countertop 1") == "Nothing happens."
    assert player("go to cabinet 1") == "Nothing happens."
    assert "go to cabinet 1" not in player.commands
    assert player("open cabinet 1") == "You open the cabinet 1. The cabinet 1 is open. In it, you see a mug 1."


def test_look_names_every_receptacle_that_one_faces() -> None:
    assert Player()("go to cabinet 1", "look") == (
        "You are facing the cabinet 1, and countertop 1. Next to it, you see nothing."
    )


def test_what_was_taken_out_and_put_down_at_the_same_place_lies_next_to_it() -> None:
    player = Player()
    player("go to countertop 1", "open cabinet 1", "take mug 2 from countertop 1", "move mug 2 to cabinet 1")
    assert player("look").endswith("Next to it, you see a mug 2.")
    player("take mug 2 from cabinet 1", "move mug 2 to countertop 1")
    assert player("look").endswith("Next to it, you see a mug 2.")  # now it is the cabinet that it was taken out of


@pytest.mark.parametrize(
    ("release", "command", "answer"),
    [
        ("2021", "put mug 2 in/on sidetable 1", "You put the mug 2 in/on the sidetable 1."),
        ("current", "move mug 2 to sidetable 1", "You move the mug 2 to the sidetable 1."),
    ],
)
def test_a_release_knows_its_own_word_for_putting_down_only(release: Release, command: str, answer: str) -> None:
    player = Player(release=release)
    player("go to countertop 1", "take mug 2 from countertop 1", "go to sidetable 1")
    other = {"2021": "move mug 2 to sidetable 1", "current": "put mug 2 in/on sidetable 1"}[release]
    assert player(other) == "Nothing happens."
    assert player(command) == answer


def test_only_the_current_release_has_help() -> None:
    assert Player(release="2021")("help") == "Nothing happens."
    told = Player(release="current")("help")
    assert told.startswith("Available commands:\n  look:                             look around")
    assert "\n  move (object) to (receptacle):  place an object in or on a receptacle\n" in told


def test_a_closed_receptacle_hides_and_keeps_what_is_in_it() -> None:
    player = Player()
    assert player("go to cabinet 1") == "You arrive at cabinet 1. The cabinet 1 is closed."
    assert "take mug 1 from cabinet 1" not in player.commands
    player("take mug 2 from countertop 1")
    assert "move mug 2 to cabinet 1" not in player.commands
    player("open cabinet 1")
    assert "move mug 2 to cabinet 1" in player.commands
    assert player("close cabinet 1") == "You close the cabinet 1."
    assert player("examine cabinet 1") == "The cabinet 1 is closed."


def test_one_holds_one_thing_and_puts_it_only_where_its_type_may_go() -> None:
    player = Player()
    assert player("inventory") == "You are not carrying anything."
    player("go to countertop 1", "take knife 1 from countertop 1")
    assert player("inventory") == "You are carrying: a knife 1."
    assert not [command for command in player.commands if command.startswith(("take", "move"))]


def test_what_lies_in_two_receptacles_stays_in_the_other_while_it_is_held() -> None:
    player = Player()
    player("go to drawer 1", "open drawer 1", "take watch 2 from drawer 1")
    assert player("go to sidetable 1").endswith("you see a watch 2, and a watch 1.")
    assert player("inventory") == "You are carrying: a watch 2."


def test_only_what_is_held_can_be_examined_besides_receptacles() -> None:
    player = Player()
    player("go to countertop 1")
    assert player("examine apple 1") == "Nothing happens."
    assert player("take apple 1 from countertop 1", "examine apple 1") == "There's nothing special about apple 1."


def test_a_box_is_described_by_what_is_in_it() -> None:
    player = Player(facts="(inReceptacleObject Mug_bar_1 Box_bar_1)")
    player("go to countertop 1", "take box 1 from countertop 1")
    assert player("examine box 1") == "This is a normal box 1. In it, you see a mug 2."


def test_heating_undoes_cooling_and_cleaning_stays() -> None:
    player = Player()
    player("go to countertop 1", "take mug 2 from countertop 1", "go to fridge 1")
    assert player("cool mug 2 with fridge 1") == "You cool the mug 2 using the fridge 1."
    assert player("examine mug 2") == "This is a cold mug 2."
    player("go to sinkbasin 1")
    assert player("clean mug 2 with sinkbasin 1") == "You clean the mug 2 using the sinkbasin 1."
    assert player("examine mug 2") == "This is a cool and clean mug 2."
    assert player("go to microwave 1") == "You arrive at microwave 1. The microwave 1 is closed."
    assert player("heat mug 2 with microwave 1") == "You heat the mug 2 using the microwave 1."
    assert player("examine mug 2") == "This is a hot and clean mug 2."


def test_a_knife_slices_what_is_at_the_place_even_behind_a_closed_door() -> None:
    player = Player()
    player("go to countertop 1", "take knife 1 from countertop 1")
    assert player("slice apple 1 with knife 1") == "You sliced the apple 1 with the knife 1."
    assert player("go to drawer 1") == "You arrive at drawer 1. The drawer 1 is closed."
    assert player("slice egg 1 with knife 1") == "You sliced the egg 1 with the knife 1."
    player("go to countertop 1", "move knife 1 to countertop 1")
    assert not [command for command in player.commands if command.startswith("take")]  # a knife may go nowhere here


def test_a_lamp_in_a_closed_drawer_is_turned_on_time_and_again() -> None:
    player = Player()
    player("go to drawer 1")
    assert player("use desklamp 1") == player("use desklamp 1") == "You turn on the desklamp 1."


@pytest.mark.parametrize("command", ["LOOK", "Look", "go to  drawer 1", "go to drawer", "go to drawer 2", "", "xyzzy"])
def test_what_differs_from_a_possible_command_in_any_letter_changes_nothing(command: str) -> None:
    game = read_game(house())
    assert play(game, game.start, command) == (game.start, "Nothing happens.", False)


@pytest.mark.parametrize("command", [" look", "look  ", "\tlook\n", "look\r\n"])
def test_spaces_around_a_command_do_not_matter(command: str) -> None:
    game = read_game(house())
    assert play(game, game.start, command) == play(game, game.start, "look")


def test_every_listed_command_is_accepted_and_every_accepted_one_listed() -> None:
    player = Player()
    player("go to countertop 1", "open cabinet 1")
    listed = player.commands
    assert listed == sorted(set(listed))
    assert all(play(player.game, player.state, command).valid for command in listed)
    for verb, names in (("go to", player.game.receptacles), ("examine", player.game.objects)):
        for name in names:
            command = f"{verb} {name}"
            assert play(player.game, player.state, command).valid == (command in listed)


def test_a_hot_mug_wins_in_the_cabinet_and_a_cold_one_does_not() -> None:
    player = Player(goal=HOT_MUG_IN_CABINET)
    player("go to cabinet 1", "open cabinet 1", "take mug 2 from countertop 1", "move mug 2 to cabinet 1")
    assert not player.won
    player("take mug 2 from cabinet 1", "go to microwave 1", "heat mug 2 with microwave 1", "go to cabinet 1")
    assert not player.won
    player("move mug 2 to cabinet 1")
    assert player.won


def test_two_mugs_win_and_one_does_not() -> None:
    player = Player(goal=TWO_MUGS_ON_SIDETABLE)
    player("go to countertop 1", "take mug 2 from countertop 1", "go to sidetable 1", "move mug 2 to sidetable 1")
    assert not player.won
    player("go to cabinet 1", "open cabinet 1", "take mug 1 from cabinet 1", "go to sidetable 1")
    assert not player.won
    player("move mug 1 to sidetable 1")
    assert player.won


def test_looking_at_a_watch_wins_only_beside_the_lamp_that_is_on() -> None:
    player = Player(goal=WATCH_BY_THE_LAMP)
    player("go to drawer 1", "use desklamp 1", "go to sidetable 1", "take watch 1 from sidetable 1")
    assert not player.won
    player("go to drawer 1")
    assert player.won
