"""What is tried: one TOML file an experiment. Unknown keys are rejected; the file is kept beside the checkpoints.

Where things are (addresses, folders) are settings: options of `prover train` and its environment variables.

Five knobs more than forty: what an analysis can be asked for, a training can ask for, under the same names.
"""

import json
import tomllib
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from prover.analysis import MAX_PROPOSALS
from prover.credit.modes import MODES
from prover.credit.rules import Evidence
from prover.training.learner_experiment import check_knobs
from prover.trajectory import Task

MAX_POOL = 100_000
"""Tasks that a curriculum can keep in mind."""

Scalar = bool | int | float | str
LearnerValue = Scalar | tuple[Scalar, ...]
Seeds = tuple[int, int]
"""[first, one past the last]."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Tasks(_Section):
    """Where tasks come from.

    Attributes:
        environment: its name.
        train: task ids. With "{seed}" in it an id stands for one task per seed of `train_seeds`.
        test: the same for held-out tasks, with `test_seeds`.
        options: of every task.
    """

    environment: str = "alfworld"
    train: tuple[str, ...] = Field(min_length=1)
    test: tuple[str, ...] = Field(min_length=1)
    train_seeds: Seeds = (0, 1000)
    test_seeds: Seeds = (1_000_000, 1_001_000)
    options: dict[str, object] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _no_task_is_in_both(self) -> "Tasks":
        shared = {task_id for task_id, _ in self.train_ids()} & {task_id for task_id, _ in self.test_ids()}
        if shared:
            raise ValueError(f"tasks.test: {sorted(shared)[0]!r} is in tasks.train too; expected held-out tasks")
        return self

    def train_ids(self) -> list[tuple[str, str]]:
        """(task id, its family: the entry of `train` that it stands for)."""
        return _expand("tasks.train", self.train, self.train_seeds)

    def test_ids(self) -> list[tuple[str, str]]:
        """The same for `test`."""
        return _expand("tasks.test", self.test, self.test_seeds)

    def task(self, task_id: str) -> Task:
        """The task of that id."""
        return Task(environment=self.environment, task_id=task_id, options=self.options)


class Rollouts(_Section):
    """How a batch is sampled.

    Attributes:
        group_size: trajectories of a group.
        groups: groups with a signal that a step is to have (all groups, where `dynamic` is off).
        dynamic: go on past groups without a signal (rewards all alike, no penalty) until there are `groups` others.
        max_groups: most groups that are sampled for a step.
        concurrent: most groups at a time.
        max_tokens: of one turn.
    """

    agent: str = "plain"
    group_size: int = Field(default=8, ge=2, le=256)
    groups: int = Field(default=8, ge=1)
    dynamic: bool = True
    max_groups: int = Field(default=16, ge=1)
    concurrent: int = Field(default=4, ge=1)
    max_turns: int = Field(default=50, ge=1)
    temperature: float = Field(default=1.0, ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    max_tokens: int = Field(default=32, ge=1)
    timeout_s: float = Field(default=900.0, gt=0)

    @model_validator(mode="after")
    def _enough_tries(self) -> "Rollouts":
        if self.max_groups < self.groups:
            raise ValueError(f"rollouts.max_groups: was {self.max_groups}; expected at least groups, {self.groups}")
        return self


class Curriculum(_Section):
    """Which tasks come next.

    Attributes:
        by_success: prefer tasks whose success rate promises mixed groups; off draws evenly.
        explore: share of the draw's weight that is even whatever the rates say.
        memory: what a task's (or family's) earlier outcomes are multiplied by when new ones come: policies move on.
    """

    by_success: bool = True
    explore: float = Field(default=0.2, ge=0, le=1)
    memory: float = Field(default=0.8, ge=0, le=1)


class Credit(_Section):
    """Where advantages come from.

    Attributes:
        method: "verified" submits eligible groups for analysis; "grpo" never does.
        judge, mode: names that the services know. `mode` is a way of verifying.
        samples, weight: K and lambda; left out, they are the mode's own.
        proposals: most segments of a group's success that are verified, sharing no turn.
        credit: "positive", or "signed": verified mistakes of failed trajectories lose credit too.
        budget: most continuations of one group's analysis; needs mode "adaptive".
        audited_share: probability that a proposal is verified, in mode "audited"; left out, a quarter.
        stale: what becomes of a group whose policy has moved on too far to verify: "plain" credit, or "drop".
        invalid_penalty: taken from the advantage of every token of a turn that was malformed or rejected.
        normalise_std: divide group advantages by their standard deviation.
        train_continuations: the verification's continuations are trained on too, each against its siblings; needs a
            mode and `samples` that play at least 2 of a boundary.
        timeout_s: an analysis that has not ended by then is cancelled and its group keeps plain credit.
    """

    method: Literal["verified", "grpo"] = "verified"
    judge: str = "contrast"
    mode: str = "audited"
    samples: int | None = Field(default=None, ge=1)
    weight: float | None = Field(default=None, ge=0)
    proposals: int = Field(default=1, ge=1, le=MAX_PROPOSALS)
    credit: Literal["positive", "signed"] = "positive"
    budget: int | None = Field(default=None, ge=4, le=100_000)
    audited_share: float | None = Field(default=None, gt=0, le=1)
    stale: Literal["plain", "drop"] = "plain"
    invalid_penalty: float = Field(default=0.0, ge=0)
    normalise_std: bool = False
    train_continuations: bool = False
    timeout_s: float = Field(default=900.0, gt=0)

    @model_validator(mode="after")
    def _the_mode_can_do_it(self) -> "Credit":
        known = MODES.get(self.mode)
        if known is not None and known.keeps_record and (self.proposals > 1 or self.credit == "signed"):
            raise ValueError(
                f"credit.mode: was {self.mode!r} with proposals {self.proposals} and credit {self.credit!r}; expected "
                "one proposal and positive credit, or another mode: this one pays by the record of a judge's first "
                "proposals"
            )
        if self.budget is not None and (known is None or not known.divides_budget):
            raise ValueError(
                f"credit.budget: was {self.budget} in mode {self.mode!r}; expected mode 'adaptive': the other modes "
                "play the same number for every segment"
            )
        most = None if known is None else known.most_samples
        if most is not None and self.samples is not None and self.samples > most:
            raise ValueError(
                f"credit.samples: was {self.samples} in mode {self.mode!r}; expected {most} or left out; mode 'fixed' "
                "plays as many as it is told"
            )
        if self.audited_share is not None and known is not None and not known.keeps_record:
            raise ValueError(
                f"credit.audited_share: was {self.audited_share} in mode {self.mode!r}; expected mode 'audited': the "
                "other modes verify every proposal"
            )
        return self

    @model_validator(mode="after")
    def _continuations_have_siblings(self) -> "Credit":
        if not self.train_continuations:
            return self
        if self.method == "grpo":
            raise ValueError(
                "credit.train_continuations: was true with method 'grpo', which plays none; expected false"
            )
        played = self._continuations_a_boundary()
        if played is not None and played < 2:
            raise ValueError(
                f"credit.samples: was {self.samples or 'left out'}, and mode {self.mode!r} then plays {played} "
                "continuation of a boundary, with train_continuations; expected samples of at least 2 and a mode that "
                "plays as many: one continuation has no sibling to be better than"
            )
        return self

    def _continuations_a_boundary(self) -> int | None:
        """That the mode's first round plays; None where the mode is known to the services alone."""
        mode = MODES.get(self.mode)
        if mode is None:
            return self.samples
        first = mode.rule.plan(Evidence(group_successes=1, group_size=8), samples=self.samples or mode.samples)
        return None if first is None else first.before


class Evaluation(_Section):
    """Success on held-out tasks, one trajectory each, always the same tasks and seeds.

    Attributes:
        every: steps between evaluations; there is one before the first step and one after the last. 0 is never.
        tasks: how many of `tasks.test`.
        temperature: None is that of training.
    """

    every: int = Field(default=10, ge=0)
    tasks: int = Field(default=128, ge=1)
    temperature: float | None = Field(default=None, ge=0)


class Experiment(_Section):
    """A whole experiment.

    Attributes:
        name: of the run, and of its folder.
        steps: batches that are sampled.
        seed: of the choice of tasks and of sampling.
        services: "local" starts all of them on this machine; "remote" takes the addresses of the environment.
        max_lag: 0 is synchronous. 1 samples batch n + 1 while batch n is verified and trained on, so that a batch is
            at most one publish old when it is trained on.
        engine_kl_alert: nats a sampled token between engine and trainer, above which a step is marked.
        learner: knobs of the learner (learner_experiment.py); for "remote" services it has its own.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    steps: int = Field(ge=1)
    seed: int = Field(default=0, ge=0)
    services: Literal["local", "remote"] = "local"
    max_lag: int = Field(default=0, ge=0, le=1)
    engine_kl_alert: float = Field(default=0.1, gt=0)
    tasks: Tasks
    rollouts: Rollouts = Rollouts()
    curriculum: Curriculum = Curriculum()
    credit: Credit = Credit()
    evaluation: Evaluation = Evaluation()
    learner: dict[str, LearnerValue] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _the_learner_is_ours_to_tell(self) -> "Experiment":
        if self.learner and self.services == "remote":
            raise ValueError("learner: was given with services = 'remote'; expected it in the learner's own experiment")
        check_knobs(self.learner)
        return self


def read_experiment(path: Path) -> Experiment:
    """Raises ValueError naming the file and what is wrong in it."""
    try:
        return Experiment.model_validate(tomllib.loads(path.read_text()))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error


def learner_toml(values: Mapping[str, LearnerValue]) -> str:
    """The learner's table as a file of its own. JSON's scalars and arrays are TOML's.

    >>> learner_toml({"learning_rate": 3e-05, "dtype": "bfloat16"})
    'learning_rate = 3e-05\\ndtype = "bfloat16"\\n'
    """
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())


def _expand(where: str, templates: tuple[str, ...], seeds: tuple[int, int]) -> list[tuple[str, str]]:
    """Families take turns, so that any first part of the list has all of them."""
    first, end = seeds
    if not 0 <= first < end:
        raise ValueError(f"{where}_seeds: was [{first}, {end}]; expected [first, one past the last]")
    seeded = [template for template in templates if "{seed}" in template]
    if (end - first) * len(seeded) > MAX_POOL:
        raise ValueError(f"{where}_seeds: makes {(end - first) * len(seeded)} tasks; expected at most {MAX_POOL}")
    fixed = [(template, template) for template in templates if "{seed}" not in template]
    pairs = product(range(first, end), seeded)
    return fixed + [(template.replace("{seed}", str(seed)), template) for seed, template in pairs]
