"""Replays the bursts of a training run against the verifier's autoscaler: waiting, cost and lost work.

A training run is bursty: every step hands in its groups at once and then samples and trains; now and then it pauses for
an evaluation. The next step waits for the credit of this one, as in training. Three ways to run workers face it:
"backlog", the numbers of deploy/kubernetes/autoscaling/verifier.yaml (queued plus running, workers that end what they
have begun); "list", scaling on the queue's list alone with the usual 30 s of grace, which many deployments do; and
"fixed", as many workers as the busiest moment needs, always. Simulated second by second: it measures a policy, not a
cluster. What a cluster adds (scheduling, image pulls) is one number, the start-up time.
"""

import argparse
import math
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from rich.console import Console

from bench.record import write_record

_SYNC_S = 15  # how often the horizontal pod autoscaler looks
_SCRAPE_S = 10  # age of what Prometheus knows, at most
_RESEND_S = 20  # the gateway sends an idle analysis again after so long


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """An autoscaler. The defaults are those of deploy/kubernetes/autoscaling/verifier.yaml; a test compares them.

    Attributes:
        counts_running: whether work in hand counts, or only the queue's list.
        target: tasks a worker; also how many it works on at a time.
        grace_s: how long a worker that is told to stop may go on.
        least: workers that are always there; with `most` the same, nothing scales.
    """

    name: str = "backlog"
    counts_running: bool = True
    target: int = 4
    least: int = 0
    most: int = 32
    poll_s: int = 5
    cooldown_s: int = 300
    stabilization_s: int = 300
    down_percent: int = 50
    down_period_s: int = 60
    up_percent: int = 100
    up_pods: int = 4
    up_period_s: int = 15
    grace_s: int = 1860
    start_s: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A training run: `steps` bursts of tasks with pauses. Seconds are drawn from a log-normal distribution."""

    steps: int = 40
    tasks_a_step: int = 128
    median_task_s: float = 12.0
    spread: float = 0.8
    between_s: int = 90
    evaluation_every: int = 10
    evaluation_s: int = 900


@dataclass(slots=True)
class _Worker:
    ready_at: int
    left_s: list[list[float]] = field(default_factory=list[list[float]])
    """Of each task in hand: seconds left, seconds in all."""
    stop_by: int | None = None


@dataclass(slots=True)
class _Result:
    waits_s: list[int] = field(default_factory=list[int])
    worker_s: int = 0
    busy_slot_s: int = 0
    redone_s: float = 0.0
    killed: int = 0
    finished: int = 0
    end_s: int = 0


class Simulation:
    """One policy facing one load. Every second: finish, take, look, scale."""

    def __init__(self, policy: Policy, load: Load, *, seed: int) -> None:
        self._policy = policy
        self._load = load
        self._random = random.Random(seed)
        self._now = 0
        self._queue: deque[tuple[int, float]] = deque()
        self._resent: list[tuple[int, float]] = []
        self._workers = [_Worker(ready_at=0) for _ in range(policy.least)]
        self._desired: deque[tuple[int, int]] = deque()
        self._seen: deque[int] = deque([0], maxlen=_SCRAPE_S)
        self._last_active = 0
        self._step = 0
        self._next_burst = 0
        self.result = _Result()

    def run(self, *, limit_s: int = 400_000) -> _Result:
        """Until the last step's tasks are finished."""
        while self._step < self._load.steps or self._outstanding():
            if self._now >= limit_s:
                raise RuntimeError(f"{self._policy.name}: {self._outstanding()} tasks left after {limit_s} s")
            self._burst()
            self._work()
            self._take()
            self._scale()
            self._now += 1
        self.result.end_s = self._now
        return self.result

    def _outstanding(self) -> int:
        return len(self._queue) + len(self._resent) + self._running()

    def _running(self) -> int:
        return sum(len(worker.left_s) for worker in self._workers)

    def _burst(self) -> None:
        back = [task for task in self._resent if task[0] <= self._now]
        self._resent = [task for task in self._resent if task[0] > self._now]
        self._queue.extend((self._now, seconds) for _, seconds in back)
        if self._outstanding() or self._step == self._load.steps:
            return
        if self._next_burst < 0:  # the step's last task has just ended: train, sample, perhaps evaluate
            pause = self._load.evaluation_s if self._step % self._load.evaluation_every == 0 else 0
            self._next_burst = self._now + self._load.between_s + pause
        if self._now >= self._next_burst:
            for _ in range(self._load.tasks_a_step):
                seconds = self._random.lognormvariate(math.log(self._load.median_task_s), self._load.spread)
                self._queue.append((self._now, seconds))
            self._step += 1
            self._next_burst = -1

    def _work(self) -> None:
        staying: list[_Worker] = []
        for worker in self._workers:
            self.result.worker_s += 1
            self.result.busy_slot_s += len(worker.left_s)
            for task in worker.left_s:
                task[0] -= 1
            done = [task for task in worker.left_s if task[0] <= 0]
            self.result.finished += len(done)
            worker.left_s = [task for task in worker.left_s if task[0] > 0]
            if worker.stop_by is None or (worker.left_s and self._now < worker.stop_by):
                staying.append(worker)
            else:
                self._kill(worker)
        self._workers = staying

    def _kill(self, worker: _Worker) -> None:
        """What it had in hand comes back through the gateway's sweep, and is played from its beginning."""
        for left, whole in worker.left_s:
            self.result.killed += 1
            self.result.redone_s += whole - left
            self._resent.append((self._now + _RESEND_S, whole))

    def _take(self) -> None:
        for worker in self._workers:
            while self._queue and worker.stop_by is None and worker.ready_at <= self._now:
                if len(worker.left_s) >= self._policy.target:
                    break
                sent, seconds = self._queue.popleft()
                self.result.waits_s.append(self._now - sent)
                worker.left_s.append([seconds, seconds])

    def _scale(self) -> None:
        policy = self._policy
        counted = len(self._queue) + (self._running() if policy.counts_running else 0)
        self._seen.append(counted)
        if policy.least == policy.most:
            return
        active = [worker for worker in self._workers if worker.stop_by is None]
        if counted:
            self._last_active = self._now
        if not active:
            if self._now % policy.poll_s == 0 and counted:
                self._start(1)
            return
        if self._now % policy.poll_s == 0 and self._now - self._last_active >= policy.cooldown_s:
            self._stop(active, len(active) - policy.least)
        elif self._now % _SYNC_S == 0:
            self._follow(active)

    def _follow(self, active: Sequence[_Worker]) -> None:
        """The horizontal pod autoscaler: up at once within its limits, down after the stabilization window."""
        policy = self._policy
        want = min(policy.most, max(1, policy.least, math.ceil(self._seen[0] / policy.target)))
        self._desired.append((self._now, want))
        while self._desired[0][0] < self._now - policy.stabilization_s:
            self._desired.popleft()
        have = len(active)
        if want > have:
            self._start(min(want - have, max(have * policy.up_percent // 100, policy.up_pods)))
            return
        highest = max(desired for _, desired in self._desired)
        periods = policy.down_period_s // _SYNC_S
        step = math.ceil(have * policy.down_percent / 100 / periods)
        if highest < have:
            self._stop(active, min(have - highest, step))

    def _start(self, count: int) -> None:
        self._workers += [_Worker(ready_at=self._now + self._policy.start_s) for _ in range(count)]

    def _stop(self, active: Sequence[_Worker], count: int) -> None:
        for worker in self._random.sample(list(active), count):
            worker.stop_by = self._now + self._policy.grace_s


def policies() -> tuple[Policy, ...]:
    """Ours, the usual one, and none."""
    return (
        Policy(),
        Policy(name="list", counts_running=False, grace_s=30),
        Policy(name="fixed", least=32, most=32),
    )


def main(argv: Sequence[str]) -> int:
    """Simulates every policy on the same loads; prints the table, the headline last."""
    parser = argparse.ArgumentParser(prog="prover bench autoscaling", description=__doc__)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=40, help="steps of the training run")
    options = parser.parse_args(argv)
    load = Load(steps=options.steps)
    rows = [
        _row(policy, load, seed)
        for policy in policies()
        for seed in range(options.first_seed, options.first_seed + options.seeds)
    ]
    headline = _headline(rows)
    settings = {"load": asdict(load), "policies": [asdict(policy) for policy in policies()], **vars(options)}
    write_record("autoscaling", settings=settings, headline=headline, rows=rows)
    console = Console()
    for row in rows:
        console.print("  ".join(f"{name} {value}" for name, value in row.items()))
    console.print("  ".join(f"{name} {value:.3f}" for name, value in headline.items()))
    return 0


def _row(policy: Policy, load: Load, seed: int) -> dict[str, object]:
    result = Simulation(policy, load, seed=seed).run()
    waits = sorted(result.waits_s)
    return {
        "policy": policy.name,
        "seed": seed,
        "lost": load.steps * load.tasks_a_step - result.finished,
        "killed": result.killed,
        "redone_s": round(result.redone_s, 1),
        "wait_p50_s": waits[len(waits) // 2],
        "wait_p95_s": waits[len(waits) * 95 // 100],
        "hours": round(result.end_s / 3600, 3),
        "worker_hours": round(result.worker_s / 3600, 3),
        "utilisation": round(result.busy_slot_s / (result.worker_s * policy.target), 3),
    }


def _headline(rows: Sequence[dict[str, object]]) -> dict[str, float]:
    def mean(policy: str, name: str) -> float:
        values = [float(str(row[name])) for row in rows if row["policy"] == policy]
        return sum(values) / len(values)

    return {
        "lost": mean("backlog", "lost"),
        "killed": mean("backlog", "killed"),
        "list_killed": mean("list", "killed"),
        "wait_p95_s": mean("backlog", "wait_p95_s"),
        "fixed_wait_p95_s": mean("fixed", "wait_p95_s"),
        "cost_ratio": mean("backlog", "worker_hours") / mean("fixed", "worker_hours"),
        "time_ratio": mean("backlog", "hours") / mean("fixed", "hours"),
    }
