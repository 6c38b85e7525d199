"""What the rollout service counts, for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from prover.trajectory import FailedAttempt, Trajectory

_SECONDS = (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)


class RolloutMetrics:
    """An `Observer` that counts."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._trajectories = Counter(
            "prover_rollout_trajectories", "Trajectories sampled.", ["ending", "success"], registry=registry
        )
        self._failed = Counter("prover_rollout_failed_attempts", "Attempts that came to nothing.", registry=registry)
        self._turns = Counter("prover_rollout_turns", "Turns of finished trajectories.", registry=registry)
        self._tokens = Counter(
            "prover_rollout_sampled_tokens", "Tokens sampled in finished trajectories.", registry=registry
        )
        self._seconds = Histogram(
            "prover_rollout_seconds", "Seconds that a trajectory took.", buckets=_SECONDS, registry=registry
        )

    def finished(self, trajectory: Trajectory, seconds: float) -> None:
        """One trajectory."""
        self._trajectories.labels(trajectory.ending.value, str(trajectory.success).lower()).inc()
        self._turns.inc(len(trajectory.turns))
        self._tokens.inc(sum(len(turn.token_ids or ()) for turn in trajectory.turns))
        self._seconds.observe(seconds)

    def failed(self, attempt: FailedAttempt) -> None:
        """One failed attempt."""
        self._failed.inc()
