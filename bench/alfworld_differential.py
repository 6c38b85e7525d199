"""Our ALFWorld engine against the stock one: the same commands to both, and every difference in what they answer.

A game is played along a walkthrough, along random walks, and along one guided walk, which follows an expert every other
step and so comes to hot mugs and to the goal by detours. A walk gives commands that are possible, but also ones that
are not, malformed ones, upper case and stray spaces. Compared at every step: the observation, the sorted admissible
commands, and whether the game is won and done. Our state goes through its bytes at every step.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from multiprocessing import get_context

from bench.alfworld_stock import Seen, StockGame
from prover.environments.alfworld.engine import commands, opening, play
from prover.environments.alfworld.expert_plan import plan_from
from prover.environments.alfworld.game import Game, read_game
from prover.environments.alfworld.state import State, pack, unpack

_GAMES_A_CHILD = 10
_FOLLOWED = 0.5
_MALFORMED = (
    "", " ", "go", "go to", "take", "take mug", "put", "move", "examine", "use", "open", "close", "xyzzy",
    "look around", "inventory please", "help me", "go to desk 99", "take mug 99 from desk 1", "look.", "Look",
    "think: I need a mug", "go to loc 1", "examine loc 1", "examine agent1", "wait", "look\nlook", "go to\tdesk 1",
    "🤖",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One step at which the engines disagree: `ours` and `stock` are what they said of `field`."""

    walk: str
    step: int
    command: str
    field: str
    ours: str
    stock: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Assignment:
    """One game to compare: its content, and how to walk.

    With `stock_planner` the walkthrough is the stock engine's own, else our expert's: the former takes up to 10 s.
    `ours` is what our engine is given in place of `content`: a test's way to see that differences are found.
    """

    name: str
    content: Mapping[str, object]
    walks: int
    steps: int
    seed: int
    remember: bool = True
    stock_planner: bool = False
    ours: Mapping[str, object] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """One game compared. `solved`: the walkthrough won. `wins` counts walks that won, walkthrough included."""

    name: str
    release: str
    steps: int
    accepted: int
    solved: bool
    wins: int
    differences: tuple[Difference, ...]


def compare_all(assignments: Sequence[Assignment], *, processes: int) -> Iterator[Comparison]:
    """Compares many games in child processes, each of which ends after a few (the stock engine leaks memory)."""
    batches = [assignments[start : start + _GAMES_A_CHILD] for start in range(0, len(assignments), _GAMES_A_CHILD)]
    with ThreadPoolExecutor(max_workers=processes) as threads:
        for comparisons in threads.map(_in_a_child, batches):
            yield from comparisons


def _in_a_child(batch: Sequence[Assignment]) -> list[Comparison]:
    """A pool of its own for each batch: one whose workers are renewed may hang in Python 3.11."""
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
        return list(pool.map(compare, batch))


def compare(assignment: Assignment) -> Comparison:
    """Plays one game in both engines."""
    game = read_game(assignment.content if assignment.ours is None else assignment.ours)
    stock = StockGame(assignment.content, remember=assignment.remember)
    rng = random.Random(f"{assignment.seed}/{assignment.name}/{game.release}")
    sides = _Sides(game, stock)
    sides.begin("walkthrough")
    way = stock.walkthrough() if assignment.stock_planner else plan_from(game, game.start)
    for command in way:
        sides.step(command)
    solved = sides.done
    wins = int(solved)
    everything = _vocabulary(game)
    for walk in range(assignment.walks + 1):
        guided = walk == assignment.walks
        sides.begin("guided walk" if guided else f"walk {walk}")
        for _ in range(assignment.steps):
            advised = sides.advice() if guided and rng.random() < _FOLLOWED else []
            sides.step(advised[0] if advised else choose(rng, sides.admissible, everything))
            if sides.done:
                wins += 1
                break
    return Comparison(
        name=assignment.name,
        release=game.release,
        steps=sides.steps,
        accepted=sides.accepted,
        solved=solved,
        wins=wins,
        differences=tuple(sides.differences),
    )


def choose(rng: random.Random, admissible: Sequence[str], everything: Sequence[str]) -> str:
    """The next command of a walk. Possible ones are drawn by verb first: `go to` would drown all others."""
    verb = rng.choice(sorted({command.split(" ")[0] for command in admissible}))
    command = rng.choice([command for command in admissible if command.split(" ")[0] == verb])
    match rng.choices(
        ("possible", "any", "upper", "title", "spaces outside", "spaces inside", "malformed"), (70, 10, 4, 2, 8, 3, 3)
    )[0]:
        case "any":
            return rng.choice(everything)
        case "upper":
            return command.upper()
        case "title":
            return command.title()
        case "spaces outside":
            return f"{rng.choice((' ', '  ', chr(9), chr(10)))}{command}{rng.choice((' ', '   ', chr(10), chr(13)))}"
        case "spaces inside":
            return command.replace(" ", "  ")
        case "malformed":
            return rng.choice(_MALFORMED)
        case _:
            return command


def _vocabulary(game: Game) -> list[str]:
    """Commands on everything in the game, in both releases' words; few of them are possible at any one time."""
    alone = [f"{verb} {name}" for verb in ("go to", "open", "close", "examine", "use") for name in game.receptacles]
    alone += [f"{verb} {name}" for verb in ("examine", "use", "take", "go to") for name in game.objects]
    forms = ("take {} from {}", "put {} in/on {}", "move {} to {}", "clean {} with {}", "heat {} with {}")
    paired = [form.format(*pair) for form in forms for pair in product(game.objects, game.receptacles)]
    knives = [name for name in game.objects if "knife" in name]
    return alone + paired + [f"slice {thing} with {knife}" for thing in game.objects for knife in knives]


class _Sides:
    """Both engines in one game, step for step."""

    def __init__(self, game: Game, stock: StockGame) -> None:
        self._game = game
        self._stock = stock
        self._state = game.start
        self._walk = ""
        self._step = 0
        self.admissible: list[str] = []
        self.done = False
        self.steps = 0
        self.accepted = 0
        self.differences: list[Difference] = []

    def begin(self, walk: str) -> None:
        """Starts the game again in both engines, and compares the beginning."""
        self._walk, self._step = walk, 0
        self._state = self._game.start
        self._judge("", opening(self._game), self._stock.reset(), started=True)

    def step(self, command: str) -> None:
        """Gives a command to both, and compares what they answer."""
        self._step += 1
        self.steps += 1
        moved = play(self._game, _carried(self._state), command)
        self.accepted += moved.valid
        self._state = moved.state
        self._judge(command, moved.answer, self._stock.step(command))

    def advice(self) -> list[str]:
        """The expert's way from here; empty where nothing leads to the goal any more."""
        try:
            return plan_from(self._game, self._state)
        except ValueError:
            return []

    def _judge(self, command: str, answer: str, seen: Seen, *, started: bool = False) -> None:
        won = self._game.won(self._state)
        self.admissible, self.done = seen.admissible, seen.done
        ours = {
            "observation": answer,
            "admissible": commands(self._game, self._state),
            "won": won,
            "done": won and not started,
        }
        for field, said in ours.items():
            stock = getattr(seen, field)
            if said != stock:
                self.differences.append(
                    Difference(
                        walk=self._walk,
                        step=self._step,
                        command=command,
                        field=field,
                        ours=str(said),
                        stock=str(stock),
                    )
                )


def _carried(state: State) -> State:
    """The state as another process would get it."""
    return unpack(pack(state))
