"""Plans with full knowledge: the shortest sequence of commands that solves a game, from its start or any state of it.

A task is an errand or two: fetch an object, perhaps take it to a tool, put it somewhere. There are few ways to fill in
which object, which tool and which place, so every one is walked in the mind and the shortest kept. The tests hold the
result against the engine, and against a search that tries everything.

    plan(json.loads(path.read_text()))  # ["go to cabinet 2", "open cabinet 2", "take mug 1 from cabinet 2", ...]
    len(plan_from(environment.game, environment.state))  # how far it is from here
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import permutations, product

from prover.environments.alfworld.game import Game, read_game
from prover.environments.alfworld.state import State
from prover.environments.alfworld.wording import PUT


def plan(content: Mapping[str, object]) -> list[str]:
    """The shortest solution of a game file's content, in the wording of its release.

    Raises ValueError where the game cannot be solved, UnknownGameError (a ValueError) where it is not understood.
    """
    game = read_game(content)
    return plan_from(game, game.start)


def plan_from(game: Game, state: State) -> list[str]:
    """The shortest way from a state to the goal; empty where it is reached. ValueError where none leads there."""
    if game.won(state):
        return []
    walks = [walk.commands for walk in _Planner(game, state).walks()]
    if not walks:
        raise ValueError(f"pddl_problem: nothing leads to {game.task!r}; expected a game that can be solved")
    return min(walks, key=len)


class _Walk:
    """A plan in the making: where it has come to, what it has opened, what it has said."""

    def __init__(self, game: Game, *, place: int, closed: int, commands: Iterable[str] = ()) -> None:
        self._game = game
        self._place = place
        self._closed = closed
        self.commands = list(commands)

    def copy(self) -> "_Walk":
        return _Walk(self._game, place=self._place, closed=self._closed, commands=self.commands)

    def go(self, receptacle: int) -> None:
        if self._place != self._game.place_of[receptacle]:
            self.commands.append(f"go to {self._game.receptacles[receptacle]}")
            self._place = self._game.place_of[receptacle]

    def reach_into(self, receptacle: int) -> None:
        self.go(receptacle)
        if self._closed >> receptacle & 1:
            self.commands.append(f"open {self._game.receptacles[receptacle]}")
            self._closed &= ~(1 << receptacle)

    def fetch(self, thing: int, receptacle: int) -> None:
        self.reach_into(receptacle)
        self.commands.append(f"take {self._game.objects[thing]} from {self._game.receptacles[receptacle]}")

    def treat(self, verb: str, thing: int, tool: int) -> None:
        self.go(tool)
        self.commands.append(f"{verb} {self._game.objects[thing]} with {self._game.receptacles[tool]}")

    def put(self, thing: int, receptacle: int) -> None:
        self.reach_into(receptacle)
        names = {"thing": self._game.objects[thing], "receptacle": self._game.receptacles[receptacle]}
        self.commands.append(PUT[self._game.release].format(**names))

    def use(self, lamp: int) -> None:
        self.commands.append(f"use {self._game.objects[lamp]}")


class _Planner:
    """All sensible walks from one state of a game to its goal."""

    def __init__(self, game: Game, state: State) -> None:
        self._game = game
        self._state = state
        self._hand = next(_members(state.holding), None)
        self._things = list(_members(game.wanted_objects & game.pickupable))
        self._inside = {thing: self._receptacles_with(thing) for thing in self._things}

    def walks(self) -> Iterator[_Walk]:
        for begin in self._beginnings():
            if self._game.wanted_lamps:
                yield from self._to_light(begin)
            else:
                yield from self._to_receptacles(begin)

    def _beginnings(self) -> Iterator[_Walk]:
        """As the hand is: empty, or with something that is wanted; anything else is put down somewhere first."""
        walk = _Walk(self._game, place=self._state.place, closed=self._game.openable & ~self._state.opened)
        if self._hand is None or self._hand in self._things:
            yield walk
            return
        for receptacle, accepted in enumerate(self._game.accepts):
            if accepted >> self._hand & 1:
                dropped = walk.copy()
                dropped.put(self._hand, receptacle)
                yield dropped

    def _to_light(self, begin: _Walk) -> Iterator[_Walk]:
        things = self._things if self._hand is None or self._hand not in self._things else [self._hand]
        for lamp, thing in product(_members(self._game.wanted_lamps), things):
            for stand in self._receptacles_with(lamp):
                for walk in self._fetched(begin, thing):
                    walk.go(stand)
                    if not self._state.toggled >> lamp & 1:
                        walk.use(lamp)
                    yield walk

    def _to_receptacles(self, begin: _Walk) -> Iterator[_Walk]:
        for target in self._game.wanted_receptacles:
            things = [thing for thing in self._things if self._game.accepts[target] >> thing & 1]
            for chosen in permutations(things, self._game.wanted.count):
                if self._hand not in self._things or self._hand == chosen[0]:
                    yield from self._delivered(begin, chosen, target)

    def _delivered(self, begin: _Walk, things: Sequence[int], target: int) -> list[_Walk]:
        """Brings the things to the target one after another, each in every possible way."""
        walks = [begin]
        for thing in things:
            if target not in self._inside[thing] or self._treatments(thing):
                walks = [after for walk in walks for after in self._errand(walk, thing, target)]
        return walks

    def _errand(self, begin: _Walk, thing: int, target: int) -> Iterator[_Walk]:
        treatments = self._treatments(thing)
        # A thing may be in several receptacles, a pan on two burners: taken from one, it stays on the other.
        for source in self._inside[thing] if thing != self._hand else (None,):
            stays = target in self._inside[thing] and source != target
            for tools in product(*(tools for _, tools in treatments)):
                walk = begin.copy()
                if source is not None:
                    walk.fetch(thing, source)
                for (verb, _), tool in zip(treatments, tools, strict=True):
                    walk.treat(verb, thing, tool)
                if not stays:
                    walk.put(thing, target)
                yield walk

    def _fetched(self, begin: _Walk, thing: int) -> Iterator[_Walk]:
        if thing == self._hand:
            yield begin.copy()
            return
        for receptacle in self._inside[thing]:
            walk = begin.copy()
            walk.fetch(thing, receptacle)
            yield walk

    def _treatments(self, thing: int) -> list[tuple[str, list[int]]]:
        """(verb, tools) for what the goal wants done to a thing and is not done yet."""
        game = self._game
        tools = {"clean": ("clean", game.sinks), "hot": ("heat", game.microwaves), "cool": ("cool", game.fridges)}
        missing = [tools[done] for done in game.wanted.done if not getattr(self._state, done) >> thing & 1]
        return [(verb, list(_members(receptacles))) for verb, receptacles in missing]

    def _receptacles_with(self, thing: int) -> list[int]:
        rows = range(len(self._game.receptacles))
        return [row for row in rows if self._state.inside >> row * self._game.width + thing & 1]


def _members(numbers: int) -> Iterator[int]:
    """The members of a set of numbers that is written as bits."""
    while numbers:
        yield (numbers & -numbers).bit_length() - 1
        numbers &= numbers - 1
