"""Services that behave, in one process: a policy whose skill grows with each optimizer step, and what plays with it."""

import random
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
from pydantic import TypeAdapter

from prover.policies.policy import PolicyInfo, Sampling
from prover.policies.publish import Published
from prover.rpc.clients import RpcError
from prover.training import LearnerState, StepMetrics
from prover.training.connect import Services
from prover.training.experiment import Experiment
from prover.training.records import Evaluated, StepRecord
from prover.trajectory import CreditedTrajectory, Ending, FailedAttempt, Group, Task, Trajectory, Turn


class Killed(BaseException):
    """The process ends here, whatever it was about to do."""


def experiment(**changes: Any) -> Experiment:
    """The smallest whole one; tables are merged."""
    given: dict[str, Any] = {
        "name": "tiny",
        "steps": 3,
        "tasks": {"environment": "corridor", "train": ["easy/{seed}", "hard/{seed}"], "test": ["easy/{seed}"]},
        "rollouts": {"group_size": 8, "groups": 3, "max_groups": 8, "concurrent": 2},
        "evaluation": {"every": 2, "tasks": 20},
    }
    for key, value in changes.items():
        given[key] = {**given[key], **value} if isinstance(value, dict) and key in given else value
    return Experiment.model_validate(given)


@dataclass(slots=True)
class World:
    """What engine and learner know. Outlives the trainer, as real services do."""

    served: int = 0
    steps: int = 0
    last: StepMetrics | None = None
    skill: float = 0.25
    log: list[str] = field(default_factory=list)
    batches: list[Sequence[CreditedTrajectory]] = field(default_factory=list)
    submitted: list[tuple[Group, Mapping[str, object]]] = field(default_factory=list)
    status: str = "done"
    bonuses: tuple[float, ...] = (0.5,)
    sampling: int = 0
    most_sampling: int = 0
    kill_at: str = ""
    failing_publishes: int = 0

    def reach(self, place: str) -> None:
        """Where a kill may strike."""
        self.log.append(place)
        if place == self.kill_at:
            self.kill_at = ""
            raise Killed(place)

    def services(self) -> Services:
        return Services(rollouts=Rollouts(self), gateway=Gateway(self), learner=Learner(self))


class Rollouts:
    def __init__(self, world: World) -> None:
        self._world = world

    async def attempt_group(
        self, task: Task, *, size: int, max_turns: int, agent: str, sampling: Sampling, timeout_s: float
    ) -> AsyncGenerator[Trajectory | FailedAttempt]:
        world = self._world
        world.sampling += 1
        world.most_sampling = max(world.most_sampling, world.sampling)
        world.log.append(f"sample v{world.served}" if size > 1 else f"evaluate v{world.served}")
        try:
            if task.task_id == "broken/0":
                raise broken_call()
            rate = 1.0 if task.task_id.startswith("solved") else min(0.9, world.skill + 0.1 * world.served)
            draw = random.Random(f"{sampling.seed}/{world.served}")
            for index in range(size):
                yield trajectory(task, f"t{index}", won=draw.random() < rate, version=f"v{world.served}")
        finally:
            world.sampling -= 1

    async def policy(self, *, timeout_s: float) -> PolicyInfo:
        return PolicyInfo(model="tiny", version=f"v{self._world.served}", max_context=100)


class Learner:
    def __init__(self, world: World) -> None:
        self._world = world

    async def step(
        self, batch: Sequence[CreditedTrajectory], *, timeout_s: float, after_step: int | None = None
    ) -> StepMetrics:
        world = self._world
        world.reach(f"before step {world.steps + 1}")
        if after_step != world.steps:
            assert world.last is not None and after_step == world.steps - 1
            return world.last
        world.batches.append(batch)
        world.steps += 1
        world.last = metrics(world.steps)
        world.reach(f"after step {world.steps}")
        return world.last

    async def publish(self, *, timeout_s: float) -> Published:
        world = self._world
        world.reach(f"before publish {world.steps}")
        if world.failing_publishes:
            world.failing_publishes -= 1
            raise failed_call(
                "LearnerService.Publish", grpc.StatusCode.FAILED_PRECONDITION, "publish of 'v1': ConnectError"
            )
        world.served = world.steps
        world.reach(f"after publish {world.steps}")
        return Published(version=f"v{world.served}", weights_path="", probe_difference=0.001)

    async def state(self, *, timeout_s: float) -> LearnerState:
        version = f"v{self._world.steps}"
        return LearnerState(step=self._world.steps, version=version, published=f"v{self._world.served}")


class Gateway:
    """Every analysis ends as `world.status`; where that is "done", the first success earns 0.5 on its first turn."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def submit(self, group: Group, options: Mapping[str, object] | None = None) -> str:
        self._world.submitted.append((group, options or {}))
        return str(len(self._world.submitted) - 1)

    async def wait(self, analysis_id: str, *, timeout_s: float | None = None) -> Any:
        if self._world.status == "slow":
            raise TimeoutError(f"analysis {analysis_id}: still verifying")
        judge = {"input_tokens": 10, "output_tokens": 5, "seconds": 0.25}
        verdicts = self._world.bonuses if self._world.status == "done" else ()
        return {
            "status": self._world.status,
            "error": None,
            "segments": [{"verification": {"bonus": bonus}} for bonus in verdicts],
            "cost": {"judge": judge, "continuations": 2, "continuation_tokens": 40},
        }

    async def advantages(self, analysis_id: str) -> Any:
        group, _ = self._world.submitted[int(analysis_id)]
        mean = sum(each.reward for each in group.trajectories) / len(group.trajectories)
        won = next(each.id for each in group.trajectories if each.success)

        def entry(each: Trajectory) -> dict[str, Any]:
            values = [each.reward - mean + (0.5 if each.id == won and not turn else 0.0) for turn in range(2)]
            turns = [
                {"turn": turn, "advantage": value, "token_advantages": [value]} for turn, value in enumerate(values)
            ]
            return {"trajectory_id": each.id, "group_advantage": each.reward - mean, "turns": turns}

        return {"trajectories": [entry(each) for each in group.trajectories]}

    async def continuations(self, analysis_id: str) -> Any:
        """Two from the first boundary, one of which succeeded, and one alone from the second."""
        group, _ = self._world.submitted[int(analysis_id)]

        def one(side: str, sample: int, advantage: float) -> dict[str, Any]:
            played = trajectory(group.task, f"{side}-{sample}", won=advantage > 0)
            document = TypeAdapter(Trajectory).dump_python(played, mode="json")
            return {"sample": sample, "advantage": advantage, "trajectory": document}

        before, after = [one("before", 0, 0.5), one("before", 1, -0.5)], [one("after", 0, 0.0)]
        return {
            "boundaries": [
                {"side": "before", "trajectory_id": "t0", "before_turn": 0, "continuations": before},
                {"side": "after", "trajectory_id": "t0", "before_turn": 1, "continuations": after},
            ]
        }

    async def cancel(self, analysis_id: str) -> None:
        self._world.log.append(f"cancel {analysis_id}")


@dataclass(slots=True)
class Watcher:
    """An observer that remembers."""

    records: list[StepRecord] = field(default_factory=list)
    evaluations: list[Evaluated] = field(default_factory=list)
    phases: list[str] = field(default_factory=list)

    def phase(self, step: int, name: str, done: int, total: int) -> None:
        self.phases.append(name)

    def recorded(self, record: StepRecord) -> None:
        self.records.append(record)

    def evaluated(self, evaluated: Evaluated) -> None:
        self.evaluations.append(evaluated)


def trajectory(task: Task, name: str, *, won: bool, version: str = "v0") -> Trajectory:
    """Two turns of one token, the second refused where it failed."""
    turns = tuple(
        Turn(
            observation="a door",
            text="go",
            action="go",
            valid=won or number == 0,
            context_token_ids=(1,),
            token_ids=(2,),
            logprobs=(-0.5,),
        )
        for number in range(2)
    )
    return Trajectory(
        id=name,
        task=task,
        policy_version=version,
        turns=turns,
        reward=float(won),
        success=won,
        ending=Ending.FINISHED if won else Ending.STEP_LIMIT,
    )


def group(wins: int, size: int = 8, *, task_id: str = "easy/0") -> Group:
    """The first `wins` succeed."""
    task = Task(environment="corridor", task_id=task_id)
    members = tuple(trajectory(task, f"t{index}", won=index < wins) for index in range(size))
    return Group(task=task, policy_version="v0", trajectories=members)


def metrics(step: int, *, engine_kl: float = 0.001) -> StepMetrics:
    return StepMetrics(
        step=step,
        loss=-0.1,
        gradient_norm=1.0,
        clip_fraction=0.0,
        engine_kl=engine_kl,
        entropy=0.3,
        sampled_tokens=48,
        sequences=24,
        padding=0.0,
        seconds=0.5,
        computed_tokens=100,
    )


def broken_call() -> RpcError:
    """What a client raises where every attempt of a group failed."""
    return failed_call("RolloutService.SampleGroup", grpc.StatusCode.ABORTED, "all 8 attempts failed")


def failed_call(name: str, code: grpc.StatusCode, details: str) -> RpcError:
    """What a client raises."""
    return RpcError(name, grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details=details))
