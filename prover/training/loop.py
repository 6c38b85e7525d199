"""A training run, step by step: `Trainer.train` is the whole of it.

Who waits for whom. Synchronous (`max_lag` 0): sample, verify, train, publish, one after the other. One step off policy
(`max_lag` 1): while batch n is verified and trained on, batch n + 1 is sampled from the version that is served then;
the publish of n waits for the last of its trajectories, so that no group is of two versions. Batch n + 1 is then
verified by the version after its own (`allowed_lag`), and is one publish old when it is trained on.

A process that is killed at any moment goes on from the run's state. The learner has its own checkpoint: where it turns
out to have taken the step that was pending, the step is recorded without the learner's lost answer, not taken again.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from prover.policies.publish import Published
from prover.training.connect import Services
from prover.training.crediting import Credited, credit_groups, is_eligible
from prover.training.curriculum import Outcome, Records, choose, learn
from prover.training.evaluation import evaluate
from prover.training.experiment import Experiment
from prover.training.publishing import PAUSES_S, publish
from prover.training.records import Evaluated, Groups, Phase, StepRecord
from prover.training.runs import Run, RunRefused, State
from prover.training.sampling import Batch, has_signal, sample_batch

_log = logging.getLogger(__name__)
_STEP_TIMEOUT_S = 3600.0
_CALL_TIMEOUT_S = 120.0


class Observer(Protocol):
    """Whoever watches a run."""

    def phase(self, step: int, name: str, done: int, total: int) -> None:
        """A phase of a step has come this far."""
        ...

    def recorded(self, record: StepRecord) -> None:
        """A step is done."""
        ...

    def evaluated(self, evaluated: Evaluated) -> None:
        """Held-out tasks were played."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trained:
    learner_step: int
    record: StepRecord


class Trainer:
    """One run of an experiment. Single use."""

    def __init__(
        self,
        experiment: Experiment,
        run: Run,
        services: Services,
        observers: Sequence[Observer],
        *,
        publish_pauses_s: Sequence[float] = PAUSES_S,
    ) -> None:
        self._experiment = experiment
        self._run = run
        self._services = services
        self._observers = observers
        self._pauses_s = publish_pauses_s
        self._state = State()
        self._pool = experiment.tasks.train_ids()
        self._families = dict(self._pool)
        self._last = time.monotonic()

    async def train(self) -> State:
        """From where the run stands to its last step. Raises what a service raises, and NotPublished; the run can be
        gone on with."""
        await self._recover()
        await self._evaluate()
        ahead: asyncio.Task[Batch] | None = None
        try:
            while self._state.step < self._experiment.steps:
                step = self._state.step + 1
                batch = await (ahead or self._start_sampling(step, self._state.records))
                more = self._experiment.max_lag and step < self._experiment.steps
                ahead = self._start_sampling(step + 1, self._learned(_outcomes(batch))) if more else None
                credited = await self._credit(batch, step)
                trained = await self._train(batch, credited, step)
                await self._publish(trained, after=ahead)
                await self._evaluate()
        finally:
            if ahead is not None:
                ahead.cancel()
                await asyncio.gather(ahead, return_exceptions=True)
        self._save(replace(self._state, status="finished"))
        return self._state

    async def _recover(self) -> None:
        """Brings run, learner and engine together, whatever was cut short."""
        learner = await self._services.learner.state(timeout_s=_CALL_TIMEOUT_S)
        kept = self._run.state
        state = State(learner_step=learner.step) if kept is None else replace(kept, status="running", reason="")
        taken = learner.step - state.learner_step
        if taken > 1 or (taken == 1 and state.pending is None):
            raise RunRefused(
                f"{self._run.folder}: the learner has taken {learner.step} steps, the run knows of "
                f"{state.learner_step}; something else trains it: choose another run, or another learner"
            )
        self._save(replace(state, learner_step=min(state.learner_step, learner.step)))
        if taken < 0:
            _log.warning("the learner went back by %d steps to its newest checkpoint", -taken)
        if taken == 1 and state.pending is not None:
            record = replace(state.pending, learner_step=learner.step, recovered=True)
            await self._publish(_Trained(learner_step=learner.step, record=record), after=None)
            return
        served = await self._services.rollouts.policy(timeout_s=_CALL_TIMEOUT_S)
        if served.version != learner.version:
            await self._published()

    def _start_sampling(self, step: int, records: Records) -> asyncio.Task[Batch]:
        """`records`: of all steps before; the same ones choose the same tasks, also in a run that was gone on with."""
        rollouts = self._experiment.rollouts
        count = rollouts.max_groups if rollouts.dynamic else rollouts.groups
        task_ids = choose(
            self._pool,
            records,
            count=count,
            seed=f"{self._experiment.seed}/{step}",
            settings=self._experiment.curriculum,
        )
        sampling = sample_batch(
            self._services.rollouts,
            task_ids,
            self._experiment,
            step=step,
            learner_step=self._state.learner_step,
            progress=partial(self._phase, step, "rollout"),
        )
        return asyncio.create_task(sampling)

    async def _credit(self, batch: Batch, step: int) -> Credited:
        progress = partial(self._phase, step, "verification")
        return await credit_groups(self._services.gateway, batch.groups, self._experiment, progress=progress)

    async def _train(self, batch: Batch, credited: Credited, step: int) -> _Trained:
        """The optimizer step. What is known before it is saved before it: the answer may be lost with the process."""
        before = self._state.learner_step
        record = _record(batch, credited, step, lag=before - batch.learner_step, experiment=self._experiment)
        if not credited.batch:
            return _Trained(learner_step=before, record=replace(record, learner_step=before))
        self._save(replace(self._state, pending=record))
        self._phase(step, "training", 0, 1)
        metrics = await self._services.learner.step(credited.batch, timeout_s=_STEP_TIMEOUT_S, after_step=before)
        alert = metrics.engine_kl > self._experiment.engine_kl_alert
        if alert:
            _log.warning("step %d: engine and trainer differ by %.3g nats a token", step, metrics.engine_kl)
        training = Phase(seconds=metrics.seconds, tokens=metrics.sampled_tokens)
        phases = {**record.phases, "training": training}
        record = replace(record, learner=metrics, learner_step=metrics.step, alert=alert, phases=phases)
        return _Trained(learner_step=metrics.step, record=record)

    async def _publish(self, trained: _Trained, *, after: asyncio.Task[Batch] | None) -> None:
        """New weights into the engine, then the record, then the state: in this order a kill loses none of them."""
        record = trained.record
        if trained.learner_step != self._state.learner_step:
            if after is not None:
                await asyncio.wait([after])
            self._phase(record.step, "publishing", 0, 1)
            published, seconds = await _timed(self._published)
            record = _with_publish(record, published, seconds)
        now = time.monotonic()
        record = replace(record, seconds=now - self._last)
        self._last = now
        self._run.add(record)
        self._save(State(step=record.step, learner_step=trained.learner_step, records=self._learned(record.outcomes)))
        for observer in self._observers:
            observer.recorded(record)

    async def _evaluate(self) -> None:
        """Where it is due and was not done before."""
        step, every = self._state.step, self._experiment.evaluation.every
        due = every and (step % every == 0 or step == self._experiment.steps)
        if not due or any(each.step == step for each in self._run.evaluations()):
            return
        progress = partial(self._phase, step, "evaluation")
        evaluated = await evaluate(self._services.rollouts, self._experiment, step=step, progress=progress)
        self._run.add(evaluated)
        self._last = time.monotonic()
        for observer in self._observers:
            observer.evaluated(evaluated)

    async def _published(self) -> Published:
        return await publish(self._services.learner, timeout_s=_STEP_TIMEOUT_S, pauses_s=self._pauses_s)

    def _learned(self, outcomes: Sequence[Outcome]) -> Records:
        memory = self._experiment.curriculum.memory
        return learn(self._state.records, outcomes, self._families, memory=memory)

    def _save(self, state: State) -> None:
        self._state = state
        self._run.save(state)

    def _phase(self, step: int, name: str, done: int, total: int) -> None:
        for observer in self._observers:
            observer.phase(step, name, done, total)


async def _timed(call: Callable[[], Awaitable[Published]]) -> tuple[Published, float]:
    begun = time.monotonic()
    return await call(), time.monotonic() - begun


def _with_publish(record: StepRecord, published: Published, seconds: float) -> StepRecord:
    return replace(
        record,
        published=published.version,
        probe_difference=published.probe_difference,
        phases={**record.phases, "publishing": Phase(seconds=seconds)},
    )


def _outcomes(batch: Batch) -> tuple[Outcome, ...]:
    return tuple(
        Outcome(
            task_id=group.task.task_id,
            successes=sum(trajectory.success for trajectory in group.trajectories),
            trajectories=len(group.trajectories),
        )
        for group in batch.groups
    )


def _record(batch: Batch, credited: Credited, step: int, *, lag: int, experiment: Experiment) -> StepRecord:
    trajectories = [trajectory for group in batch.groups for trajectory in group.trajectories]
    turns = [turn for trajectory in trajectories for turn in trajectory.turns]
    return StepRecord(
        step=step,
        started_at=time.time(),
        seconds=0.0,
        sampled_from=batch.groups[0].policy_version,
        lag=lag,
        groups=Groups(
            sampled=len(batch.groups),
            failed=batch.failed,
            without_signal=sum(not has_signal(group, experiment.credit) for group in batch.groups),
            eligible=sum(is_eligible(group) for group in batch.groups),
            trained=credited.groups,
            dropped=credited.dropped,
            failed_attempts=batch.failed_attempts,
        ),
        success_rate=sum(trajectory.success for trajectory in trajectories) / len(trajectories),
        invalid_share=sum(not turn.valid for turn in turns) / len(turns),
        turns_mean=len(turns) / len(trajectories),
        verified=credited.verified,
        outcomes=_outcomes(batch),
        phases={
            "rollout": Phase(seconds=batch.seconds, tokens=batch.tokens),
            "judge": Phase(seconds=credited.judge_seconds, tokens=credited.judge_tokens),
            "verification": Phase(seconds=credited.seconds, tokens=credited.verification_tokens),
        },
    )
