"""What the policy is trained to imitate: a searcher that plays from the texts alone, on generated games.

A policy that only ever saw the searcher's own games would be lost after its first mistake (measured: it repeats it to
the end). So somebody else plays in between: now and then a random command, or one of the mistakes that such a policy
makes, several times over; and in a share of the games a whole stretch of them comes first. Those stand in the context
and are not imitated; what the searcher does about them is.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer

from prover.agents import Plain
from prover.environments.alfworld import AlfworldEnvironment
from prover.environments.alfworld.expert import Searcher
from prover.environments.alfworld.expert_memory import Memory, read_goal
from prover.environments.alfworld.generate import TASK_TYPES
from prover.environments.alfworld.generate_facts import CAN_CONTAIN
from prover.trajectory import Task

_TOOLS: Mapping[str, str] = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}
_DIFFICULTIES: Sequence[dict[str, object]] = ({}, {}, {"size": "small"}, {"size": "large"}, {"hidden": 0.6})


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How games are disturbed.

    Attributes:
        wandering_share: games that begin with stray commands, 1 to `wandering_turns` of them.
        stray_share: how often a stray command comes before one of the searcher's own.
        mistake_share: of the stray commands, the plausible ones that do not work; the others are any that do.
        repeat_share: how often a mistake is made once more.
        max_turns: a game is given up after so many commands.
    """

    wandering_share: float = 0.1
    wandering_turns: int = 20
    stray_share: float = 0.1
    mistake_share: float = 0.6
    repeat_share: float = 0.4
    max_turns: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A stretch of a transcript. `imitate`: the policy is to write it; else it only reads it."""

    text: str
    imitate: bool


def demonstrate(task_type: str, seed: int, recipe: Recipe) -> list[Piece]:
    """One game as the agent `plain` writes it down. The same arguments give the same transcript."""
    rng = random.Random(f"demonstration/{task_type}/{seed}")
    environment, agent = AlfworldEnvironment(), Plain()
    options = {"difficulty": rng.choice(_DIFFICULTIES)}
    task = Task(environment="alfworld", task_id=f"generated/{task_type}/{seed}", options=options)
    observation = environment.reset(task).text
    searcher, strays = Searcher(observation, seed=seed), _Strays(environment, observation, rng, recipe)
    pieces = [Piece(text=agent.opening(observation), imitate=False)]
    for _ in range(recipe.max_turns):
        stray = strays.next_command()
        command = stray or searcher.next_command()
        step = environment.step(command)
        pieces.append(Piece(text=f" {command}\n", imitate=stray is None))
        if step.done:
            break
        searcher.observe(command, step.observation)
        strays.observe(command, valid=step.valid)
        pieces.append(Piece(text=agent.reply(step.observation), imitate=False))
    return pieces


class _Strays:
    """Somebody who now and then takes the searcher's place and plays badly."""

    def __init__(self, environment: AlfworldEnvironment, opening: str, rng: random.Random, recipe: Recipe) -> None:
        self._environment = environment
        self._rng = rng
        self._recipe = recipe
        self._goal = read_goal(opening)
        self._places = Memory(opening).receptacles
        self._here = rng.choice(self._places)
        self._again: str | None = None
        self._left = rng.randint(1, recipe.wandering_turns) if rng.random() < recipe.wandering_share else 0

    def next_command(self) -> str | None:
        """A stray command, or None where it is the searcher's turn."""
        if self._again is not None and self._rng.random() < self._recipe.repeat_share:
            return self._again
        self._left -= 1
        if self._left < 0 and self._rng.random() >= self._recipe.stray_share:
            return None
        if self._rng.random() < self._recipe.mistake_share:
            return self._mistake()
        return self._rng.choice(self._environment.admissible())

    def observe(self, command: str, *, valid: bool) -> None:
        """Takes in what was done, by whomever."""
        if command.startswith("go to "):
            self._here = command.removeprefix("go to ")
        self._again = None if valid else command

    def _mistake(self) -> str:
        """Takes what is not there, puts down what is not in hand, goes where one is, uses what is elsewhere."""
        goal, rng = self._goal, self._rng
        thing = f"{goal.thing} {rng.randint(1, 2)}"
        place = self._here if rng.random() < 0.7 else rng.choice(self._places)
        verb = goal.treatment or rng.choice(("heat", "cool", "clean"))
        return rng.choice(
            (
                f"take {thing} from {place}",
                f"take {thing} from {place}",
                f"move {thing} to {place}",
                f"move {thing} to {goal.target} 1",
                f"go to {place}",
                f"open {place}",
                f"{verb} {thing} with {_TOOLS[verb]} 1",
            )
        )


def encode(pieces: Sequence[Piece], tokenizer: Tokenizer) -> tuple[list[int], list[bool]]:
    """Token ids, and for each whether it is to be imitated; piece by piece, as contexts grow in play."""
    token_ids: list[int] = []
    imitate: list[bool] = []
    for piece in pieces:
        ids = tokenizer.encode(piece.text, add_special_tokens=False).ids
        token_ids.extend(ids)
        imitate.extend([piece.imitate] * len(ids))
    return token_ids, imitate


def vocabulary_texts() -> list[str]:
    """Every name and number that games may hold and demonstrations may happen to leave out."""
    kinds = {*CAN_CONTAIN, *(kind for kinds in CAN_CONTAIN.values() for kind in kinds)}
    texts = [f"a {kind.lower()} 1, the {kind.lower()} {number}" for kind in sorted(kinds) for number in range(1, 40)]
    for release in ("2021", "current"):
        task = Task(environment="alfworld", task_id=f"generated/{TASK_TYPES[0]}/0", options={"release": release})
        environment = AlfworldEnvironment()
        texts.append(environment.reset(task).text)
        for command in (*environment.admissible(), "help", "nonsense"):
            environment.reset(task)
            texts.append(f"> {command}\n{environment.step(command).observation}")
    return texts
