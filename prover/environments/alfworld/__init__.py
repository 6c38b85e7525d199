"""ALFWorld's text games, played by an engine of our own: exact, fast, and able to fork. Start reading here.

The world. A game is a room seen through text. It has receptacles (a drawer, a bed, a microwave), some of which open and
close; objects in or on them; and places where the player can stand, each with the receptacles that one faces there,
often one, sometimes several. The player starts in the middle of the room, facing nothing, and is told what receptacles
there are and what the task is. What is in them is seen by going there. One can hold one object. There are six tasks:
put an object of a type somewhere; the same with a clean, a hot or a cool one; put two; look at one by the light of a
lamp.

    > go to drawer 1                                                                       (current release)
    You arrive at drawer 1. The drawer 1 is closed.
    > open drawer 1
    You open the drawer 1. The drawer 1 is open. In it, you see a pen 2, and a watch 1.
    > take watch 1 from drawer 1
    You pick up the watch 1 from the drawer 1.

The files. ALFWorld ships each game as `game.tw-pddl`: JSON with a planning domain (what actions need and change), a
grammar (how they are worded) and a planning problem (this room's facts, and the goal). The stock engine interprets all
three at every step. But all games share one domain and one grammar but for the line with the task, in each of two
releases: "2021" (`put X in/on Y`; one arrives at "loc 4") and "current" (`move X to Y`; one arrives at "drawer 1";
`help`). So here the rules are written down as code and only the problem is read; a file with another domain or grammar
is refused by the name of what differs.

How it works. `game.Game` is the problem in numbers, made once a game and never changed. `state.State` is all that can
change: eleven integers, most used as bit sets, in an immutable tuple. A step is a function of the two and a command,
so a fork is free: keep the state. A snapshot is the state's bytes. The digest names a state in every process alike.

    file --library--> problem, release, names, goal --> game --engine--> rules, rules_on_objects --> state

Where to find what:
    rules, rules_on_objects   one class for each action: when it may be done, what it changes, what the player reads
    state                     the state, its bytes, its digest
    game, goal                what never changes in a game, and when it is won
    problem, names            reading the problem; the numbers in "drawer 1"
    release, wording          which release a file is of, and the words that differ
    engine                    the opening, the commands that may be given, one command
    library, environment      task ids and options; the environment that the rest of the system sees
    stock                     the stock engine behind the same interface
    generate, expert          games from a seed; plans

Oddities. These are the benchmark, and agents were measured with them, so they are kept, letter for letter:
    - One cannot go to the place where one stands, so of two receptacles at one place the second is never arrived at;
      but both can be used from there.
    - Only what one holds can be examined, besides receptacles: a stray comma in the domain hides what lies about.
    - `look` in the middle of the room sees nothing; only the opening lists the room.
    - "Next to it" are objects that were taken from one receptacle at this place and put into another.
    - A lamp in a closed drawer can be used, and an object in one sliced; a closed microwave heats, a closed fridge
      cools. A lamp that is on stays on, and "you turn on" it again.
    - An object may lie in several receptacles at once (a safe and the dresser that the safe is on); taking it from one
      leaves it in the others, in sight, while it is held.
    - Receptacles are never full.
    - Case matters, and so do spaces inside a command; spaces around it do not. All else is "Nothing happens."
"""

from prover.environments.alfworld.environment import AlfworldEnvironment

__all__ = ["AlfworldEnvironment"]
