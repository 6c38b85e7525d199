"""A run's figures for Prometheus: those of the last step under the names of TensorBoard's curves, and totals."""

import re

from prometheus_client import CollectorRegistry, Counter, Gauge

from prover.training.records import Evaluated, StepRecord
from prover.training.tensorboard import scalars


class TrainingMetrics:
    """An `Observer` that counts."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._step = Gauge("prover_train_step", "Steps that are recorded.", registry=registry)
        self._last = Gauge("prover_train_last", "Figures of the last step.", ["figure"], registry=registry)
        self._seconds = Counter("prover_train_seconds", "Seconds by phase.", ["phase"], registry=registry)
        self._tokens = Counter("prover_train_tokens", "Tokens by phase.", ["phase"], registry=registry)
        self._groups = Counter("prover_train_groups", "Groups by fate.", ["fate"], registry=registry)
        self._alerts = Counter("prover_train_alerts", "Steps whose mismatch was above the alert.", registry=registry)
        self._success = Gauge("prover_train_evaluation_success", "On held-out tasks.", ["bound"], registry=registry)

    def phase(self, step: int, name: str, done: int, total: int) -> None:
        """Only whole steps are counted."""

    def recorded(self, record: StepRecord) -> None:
        """One step."""
        self._step.set(record.step)
        for name, value in scalars(record):
            self._last.labels(re.sub(r"\W", "_", name)).set(value)
        for name, phase in record.phases.items():
            self._seconds.labels(name).inc(phase.seconds)
            self._tokens.labels(name).inc(phase.tokens)
        for fate in ("sampled", "failed", "without_signal", "eligible", "trained", "dropped"):
            self._groups.labels(fate).inc(getattr(record.groups, fate))
        self._alerts.inc(record.alert)

    def evaluated(self, evaluated: Evaluated) -> None:
        """The rate and its interval."""
        low, high = evaluated.interval
        for bound, value in (("rate", evaluated.success), ("low", low), ("high", high)):
            self._success.labels(bound).set(value)
