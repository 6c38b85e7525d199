"""What the policy is trained to imitate: a searcher that plays from the texts alone, on generated games.

A policy that only ever saw the searcher's own games would be lost after its first mistake. So in a share of the games
somebody else plays first: a stretch of random commands, and now and then a random one in between. Those stand in the
context and are not imitated; what the searcher does about them is.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer

from prover.agents import Plain
from prover.environments.alfworld import AlfworldEnvironment
from prover.environments.alfworld.expert import Searcher
from prover.environments.alfworld.generate import TASK_TYPES
from prover.environments.alfworld.generate_facts import CAN_CONTAIN
from prover.trajectory import Task

_DIFFICULTIES: Sequence[dict[str, object]] = ({}, {}, {"size": "small"}, {"size": "large"}, {"hidden": 0.6})


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How games are disturbed.

    Attributes:
        wandering_share: games that begin with random commands, 1 to `wandering_turns` of them.
        stray_share: random commands among the searcher's own.
        nonsense_share: of the random commands, those that the game does not understand.
        max_turns: a game is given up after so many commands.
    """

    wandering_share: float = 0.15
    wandering_turns: int = 24
    stray_share: float = 0.04
    nonsense_share: float = 0.3
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
    searcher = Searcher(observation, seed=seed)
    wandering = rng.randint(1, recipe.wandering_turns) if rng.random() < recipe.wandering_share else 0
    pieces = [Piece(text=agent.opening(observation), imitate=False)]
    for turn in range(recipe.max_turns):
        stray = turn < wandering or rng.random() < recipe.stray_share
        command = _stray(environment, rng, recipe) if stray else searcher.next_command()
        step = environment.step(command)
        pieces.append(Piece(text=f" {command}\n", imitate=not stray))
        if step.done:
            break
        searcher.observe(command, step.observation)
        pieces.append(Piece(text=agent.reply(step.observation), imitate=False))
    return pieces


def encode(pieces: Sequence[Piece], tokenizer: Tokenizer) -> tuple[list[int], list[bool]]:
    """Token ids, and for each whether it is to be imitated; piece by piece, as contexts grow in play."""
    token_ids: list[int] = []
    imitate: list[bool] = []
    for piece in pieces:
        ids = tokenizer.encode(piece.text, add_special_tokens=False).ids
        token_ids.extend(ids)
        imitate.extend([piece.imitate] * len(ids))
    return token_ids, imitate


def _stray(environment: AlfworldEnvironment, rng: random.Random, recipe: Recipe) -> str:
    possible = environment.admissible()
    command = rng.choice(possible)
    if rng.random() >= recipe.nonsense_share:
        return command
    # The right words in the wrong place, as a policy that mixes names up would write them.
    words, others = command.split(), rng.choice(possible).split()
    return " ".join([*words[:-2], *others[-2:]])


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
