"""The rules: for each action when it may be done, what it changes and what the player reads. One class each.

A rule lists its `choices` in a state as pairs of the command and what the command is about. Nothing is parsed: a
command is accepted if it stands, letter for letter, among the choices. `effect` makes the next state; `answer` words
it, and is given that next state. The oddities are the benchmark's own and are kept: see the package's docstring.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from prover.environments.alfworld.game import Game
from prover.environments.alfworld.state import State
from prover.environments.alfworld.wording import PUT, PUT_ANSWER, help_text, listing

NOTHING_HAPPENS = "Nothing happens."
_MIDDLE_OF_THE_ROOM = "You are in the middle of a room. Looking quickly around you, you see {}."


class About(NamedTuple):
    """What a command is about: the numbers of the receptacle and the object in it, as far as it names them."""

    receptacle: int = -1
    thing: int = -1


Choice = tuple[str, About]


class Rule(Protocol):
    """One action of the game."""

    def choices(self, game: Game, state: State) -> Iterable[Choice]:
        """The commands that may be given now."""
        ...

    def effect(self, game: Game, state: State, about: About) -> State:
        """The state afterwards."""
        ...

    def answer(self, game: Game, state: State, about: About) -> str:
        """What the player reads, `state` being the one afterwards."""
        ...


def bits(numbers: int) -> Iterator[int]:
    """The numbers in a bit set, from the smallest."""
    while numbers:
        lowest = numbers & -numbers
        yield lowest.bit_length() - 1
        numbers ^= lowest


def contents(game: Game, state: State, receptacle: int) -> int:
    """The set of objects in or on a receptacle."""
    return state.inside >> receptacle * game.width & game.everything


def reachable(game: Game, state: State, receptacle: int) -> bool:
    """What is in it can be seen and touched: it has no door, or the door is open."""
    return not game.openable >> receptacle & 1 or bool(state.opened >> receptacle & 1)


def describe(game: Game, state: State, receptacle: int) -> str:
    """What one sees of a receptacle. Told on arrival, on opening, and when it is examined."""
    name = game.receptacles[receptacle]
    if not reachable(game, state, receptacle):
        return f"The {name} is closed."
    things = listing([f"a {game.objects[thing]}" for thing in bits(contents(game, state, receptacle))])
    if game.openable >> receptacle & 1:
        return f"The {name} is open. In it, you see {things}."
    return f"On the {name}, you see {things}."


class Look:
    """Describes the receptacles one faces. "Next to" a receptacle is what was taken out of it and lies in another one
    at the same place. Where one faces none (at the start, in the middle of the room) there is nothing to see: only the
    game's opening, `room`, lists what stands in the room."""

    def choices(self, game: Game, state: State) -> Iterable[Choice]:
        return (("look", About()),)

    def effect(self, game: Game, state: State, about: About) -> State:
        return state

    def answer(self, game: Game, state: State, about: About) -> str:
        here = game.receptacles_at[state.place]
        if not here:
            return _MIDDLE_OF_THE_ROOM.format(listing([]))
        next_to_it = [
            f"a {game.objects[thing]}"
            for thing in bits(state.at >> state.place * game.width & game.everything)
            for receptacle in here
            if state.left >> receptacle * game.width + thing & 1
        ]
        facing = listing([game.receptacles[receptacle] for receptacle in here])
        return f"You are facing the {facing}. Next to it, you see {listing(next_to_it)}."


def room(game: Game) -> str:
    """What one sees as the game begins."""
    if game.receptacles_at[game.start.place]:
        return Look().answer(game, game.start, About())
    return _MIDDLE_OF_THE_ROOM.format(listing([f"a {name}" for name in game.receptacles]))


class Inventory:
    """Names what one holds. Always possible."""

    def choices(self, game: Game, state: State) -> Iterable[Choice]:
        return (("inventory", About()),)

    def effect(self, game: Game, state: State, about: About) -> State:
        return state

    def answer(self, game: Game, state: State, about: About) -> str:
        if not state.holding:
            return "You are not carrying anything."
        return f"You are carrying: {listing([f'a {game.objects[thing]}' for thing in bits(state.holding)])}."


class Help:
    """Lists the commands. Current release only."""

    def choices(self, game: Game, state: State) -> Iterable[Choice]:
        return (("help", About()),) if game.release == "current" else ()

    def effect(self, game: Game, state: State, about: About) -> State:
        return state

    def answer(self, game: Game, state: State, about: About) -> str:
        return help_text()


class GoTo:
    """Goes to where a receptacle is, from anywhere but that very place: so one cannot go to a second receptacle of the
    place where one stands. The 2021 release names the place on arrival, the current one the receptacle."""

    def choices(self, game: Game, state: State) -> Iterable[Choice]:
        for receptacle, name in enumerate(game.receptacles):
            if game.place_of[receptacle] != state.place:
                yield f"go to {name}", About(receptacle)

    def effect(self, game: Game, state: State, about: About) -> State:
        return state._replace(place=game.place_of[about.receptacle])

    def answer(self, game: Game, state: State, about: About) -> str:
        where = game.places[state.place] if game.release == "2021" else game.receptacles[about.receptacle]
        return f"You arrive at {where}. {describe(game, state, about.receptacle)}"


class Open:
    """Opens a closed receptacle that one faces."""

    def choices(self, game: Game, state: State) -> Iterable[Choice]:
        for receptacle in game.receptacles_at[state.place]:
            if not reachable(game, state, receptacle):
                yield f"open {game.receptacles[receptacle]}", About(receptacle)

    def effect(self, game: Game, state: State, about: About) -> State:
        return state._replace(opened=state.opened | 1 << about.receptacle)

    def answer(self, game: Game, state: State, about: About) -> str:
        return f"You open the {game.receptacles[about.receptacle]}. {describe(game, state, about.receptacle)}"


class Close:
    """Closes an open receptacle that one faces."""

    def choices(self, game: Game, state: State) -> Iterable[Choice]:
        for receptacle in game.receptacles_at[state.place]:
            if (game.openable & state.opened) >> receptacle & 1:
                yield f"close {game.receptacles[receptacle]}", About(receptacle)

    def effect(self, game: Game, state: State, about: About) -> State:
        return state._replace(opened=state.opened & ~(1 << about.receptacle))

    def answer(self, game: Game, state: State, about: About) -> str:
        return f"You close the {game.receptacles[about.receptacle]}."


class Take:
    """Takes an object out of a receptacle that one faces, with empty hands. It stays in any other receptacle that it is
    in (a drawer's ring may lie on the dresser too), and may be seen there while one holds it."""

    def choices(self, game: Game, state: State) -> Iterable[Choice]:
        if state.holding:
            return
        for receptacle in game.receptacles_at[state.place]:
            if reachable(game, state, receptacle):
                for thing in bits(contents(game, state, receptacle) & game.pickupable):
                    yield f"take {game.objects[thing]} from {game.receptacles[receptacle]}", About(receptacle, thing)

    def effect(self, game: Game, state: State, about: About) -> State:
        spot = 1 << about.receptacle * game.width + about.thing
        return state._replace(
            holding=1 << about.thing,
            inside=state.inside & ~spot,
            left=state.left | spot,
            at=state.at & ~(1 << state.place * game.width + about.thing),
        )

    def answer(self, game: Game, state: State, about: About) -> str:
        return f"You pick up the {game.objects[about.thing]} from the {game.receptacles[about.receptacle]}."


class Put:
    """Puts what one holds into a receptacle that one faces and that takes things of its type; there is always room."""

    def choices(self, game: Game, state: State) -> Iterable[Choice]:
        for thing in bits(state.holding):
            for receptacle in game.receptacles_at[state.place]:
                if game.accepts[receptacle] >> thing & 1 and reachable(game, state, receptacle):
                    names = {"thing": game.objects[thing], "receptacle": game.receptacles[receptacle]}
                    yield PUT[game.release].format_map(names), About(receptacle, thing)

    def effect(self, game: Game, state: State, about: About) -> State:
        spot = 1 << about.receptacle * game.width + about.thing
        return state._replace(
            holding=0,
            inside=state.inside | spot,
            left=state.left & ~spot,
            at=state.at | 1 << state.place * game.width + about.thing,
        )

    def answer(self, game: Game, state: State, about: About) -> str:
        names = {"thing": game.objects[about.thing], "receptacle": game.receptacles[about.receptacle]}
        return PUT_ANSWER[game.release].format_map(names)
