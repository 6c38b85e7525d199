"""The rules that look at or change an object: examine, clean, heat, cool, use, slice."""

from collections.abc import Iterable

from prover.environments.alfworld.game import Game
from prover.environments.alfworld.rules import About, Choice, bits, contents, describe
from prover.environments.alfworld.state import State
from prover.environments.alfworld.wording import listing


class ExamineReceptacle:
    """Describes a receptacle that one faces."""

    def choices(self, game: Game, state: State) -> Iterable[Choice]:
        for receptacle in game.receptacles_at[state.place]:
            yield f"examine {game.receptacles[receptacle]}", About(receptacle)

    def effect(self, game: Game, state: State, about: About) -> State:
        return state

    def answer(self, game: Game, state: State, about: About) -> str:
        return describe(game, state, about.receptacle)


class ExamineObject:
    """Describes what one holds: a box by its contents, anything else by what was done to it. The domain means things in
    sight too, but a stray comma in it makes that condition impossible, and the benchmark has it so."""

    def choices(self, game: Game, state: State) -> Iterable[Choice]:
        for thing in bits(state.holding):
            yield f"examine {game.objects[thing]}", About(thing=thing)

    def effect(self, game: Game, state: State, about: About) -> State:
        return state

    def answer(self, game: Game, state: State, about: About) -> str:
        name, one = game.objects[about.thing], 1 << about.thing
        if game.containers & one:
            things = listing([f"a {game.objects[thing]}" for thing in game.contained[about.thing]])
            return f"This is a normal {name}. In it, you see {things}."
        clean, sliced = bool(state.clean & one), bool(state.sliced & one)
        warmth = "hot" if state.hot & one else "cool" if state.cool & one else ""
        if clean or (warmth and sliced):
            made = " and ".join(word for word in (warmth, "clean" if clean else "") if word)
            return f"This is a {made} {'sliced ' if sliced else ''}{name}."
        if warmth:
            return f"This is a {'hot' if warmth == 'hot' else 'cold'} {name}."
        if game.toggleable & state.toggled & one:
            return f"This {name} is on."
        if game.sliceable & state.sliced & one:
            return f"This is a sliced {name}."
        return f"There's nothing special about {name}."


class Clean:
    """Cleans what one holds at a sink, as often as one likes."""

    def choices(self, game: Game, state: State) -> Iterable[Choice]:
        return _with_appliance("clean", game, state, appliances=game.sinks, things=game.cleanable)

    def effect(self, game: Game, state: State, about: About) -> State:
        return state._replace(clean=state.clean | 1 << about.thing)

    def answer(self, game: Game, state: State, about: About) -> str:
        return f"You clean the {game.objects[about.thing]} using the {game.receptacles[about.receptacle]}."


class Heat:
    """Heats what one holds at a microwave, open or closed. It is no longer cool."""

    def choices(self, game: Game, state: State) -> Iterable[Choice]:
        return _with_appliance("heat", game, state, appliances=game.microwaves, things=game.heatable)

    def effect(self, game: Game, state: State, about: About) -> State:
        return state._replace(hot=state.hot | 1 << about.thing, cool=state.cool & ~(1 << about.thing))

    def answer(self, game: Game, state: State, about: About) -> str:
        return f"You heat the {game.objects[about.thing]} using the {game.receptacles[about.receptacle]}."


class Cool:
    """Cools what one holds at a fridge, open or closed. It is no longer hot."""

    def choices(self, game: Game, state: State) -> Iterable[Choice]:
        return _with_appliance("cool", game, state, appliances=game.fridges, things=game.coolable)

    def effect(self, game: Game, state: State, about: About) -> State:
        return state._replace(cool=state.cool | 1 << about.thing, hot=state.hot & ~(1 << about.thing))

    def answer(self, game: Game, state: State, about: About) -> str:
        return f"You cool the {game.objects[about.thing]} using the {game.receptacles[about.receptacle]}."


class Use:
    """Switches on an object in a receptacle that one faces, even a closed one. It never goes off again, and the answer
    is the same every time."""

    def choices(self, game: Game, state: State) -> Iterable[Choice]:
        here = 0
        for receptacle in game.receptacles_at[state.place]:
            here |= contents(game, state, receptacle)
        for thing in bits(here & game.toggleable):
            yield f"use {game.objects[thing]}", About(thing=thing)

    def effect(self, game: Game, state: State, about: About) -> State:
        return state._replace(toggled=state.toggled | 1 << about.thing)

    def answer(self, game: Game, state: State, about: About) -> str:
        return f"You turn on the {game.objects[about.thing]}."


class Slice:
    """Slices an object that is at the place, even in a closed receptacle, while one holds a knife. What is in hand does
    not count as being at the place."""

    def choices(self, game: Game, state: State) -> Iterable[Choice]:
        at_place = state.at >> state.place * game.width & game.everything
        for knife in bits(state.holding & game.knives):
            for thing in bits(at_place & game.sliceable):
                yield f"slice {game.objects[thing]} with {game.objects[knife]}", About(thing=thing)

    def effect(self, game: Game, state: State, about: About) -> State:
        return state._replace(sliced=state.sliced | 1 << about.thing)

    def answer(self, game: Game, state: State, about: About) -> str:
        (knife,) = bits(state.holding)
        return f"You sliced the {game.objects[about.thing]} with the {game.objects[knife]}."


def _with_appliance(verb: str, game: Game, state: State, *, appliances: int, things: int) -> Iterable[Choice]:
    for thing in bits(state.holding & things):
        for receptacle in game.receptacles_at[state.place]:
            if appliances >> receptacle & 1:
                command = f"{verb} {game.objects[thing]} with {game.receptacles[receptacle]}"
                yield command, About(receptacle, thing)
