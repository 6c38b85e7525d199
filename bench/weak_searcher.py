"""A policy of ALFWorld that needs no model: the experts' searcher, with a weak spot that differs from task to task.

Each turn it means to do what the searcher would; with a chance that depends on the task and on the verb it does a
random admissible command instead, and now and then one that nobody understands. So groups come out mixed, runs wander
and come back, and what decides a task is sometimes finding the thing, sometimes taking it, sometimes its treatment.
"""

import random
from collections.abc import Sequence

from prover.environments import Environment
from prover.environments.alfworld.expert import Searcher
from prover.episodes import Played
from prover.trajectory import Ending, Task, Turn

NAME = "weak searcher"
_VERBS = ("open", "take", "move", "heat", "clean", "cool", "use")
_SLIPS = (0.15, 0.35, 0.6, 0.85)
_SLIPS_GOING = (0.15, 0.3, 0.5)
_SLIP = 0.2
_NONSENSE = 0.08


class WeakSearcher:
    """The policy of one task. Every episode and continuation has its own seed."""

    def __init__(self, task: Task, *, max_turns: int) -> None:
        spots = random.Random(f"weak searcher/{task.task_id}")
        self._slips = {verb: spots.choice(_SLIPS) for verb in _VERBS} | {"go": spots.choice(_SLIPS_GOING)}
        self._max_turns = max_turns

    def play(self, environment: Environment, observation: str, past: Sequence[Turn], *, seed: str) -> Played:
        """Plays to the end from where `environment` stands after the turns `past`; the searcher reads them first.

        What it has not looked into yet it looks into in an order of this seed. The order is exponential, so what is
        left of one after some looks is distributed as a fresh one: a continuation is what the policy would have done.
        """
        rng = random.Random(seed)
        searcher = Searcher(past[0].observation if past else observation, seed=rng.randrange(2**32))
        answers = [*(turn.observation for turn in past), observation][1:]
        for turn, answer in zip(past, answers, strict=True):
            searcher.observe(turn.text, answer)
        turns: list[Turn] = []
        success = False
        while len(past) + len(turns) < self._max_turns and not success:
            command, digest = self._command(searcher, environment, rng), environment.digest()
            step = environment.step(command)
            turns.append(Turn(observation=observation, text=command, action=command, valid=step.valid, digest=digest))
            searcher.observe(command, step.observation)
            observation, success = step.observation, step.success
        ending = Ending.FINISHED if success else Ending.STEP_LIMIT
        return Played(turns=tuple(turns), reward=float(success), success=success, ending=ending, policy_version=NAME)

    def _command(self, searcher: Searcher, environment: Environment, rng: random.Random) -> str:
        meant = searcher.next_command()
        if rng.random() >= self._slips.get(meant.split()[0], _SLIP):
            return meant
        return "wonder aloud" if rng.random() < _NONSENSE else rng.choice(environment.admissible() or ["look"])
