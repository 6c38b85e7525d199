"""What the verifier counts, for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from prover.trajectory import Judgement, Verification

_WAITS_S = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)


class Metrics:
    """One set a process, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.waits = Histogram(
            "prover_verifier_queue_wait_seconds",
            "From sending a task to starting it.",
            ["task"],
            buckets=_WAITS_S,
            registry=self.registry,
        )
        self.tasks = Counter(
            "prover_verifier_tasks_total", "Tasks by how they ended.", ["task", "end"], registry=self.registry
        )
        self.running = Gauge(
            "prover_verifier_running_tasks",
            "Tasks being worked on here: the autoscaler counts them, since they are off the queue.",
            ["task"],
            registry=self.registry,
        )
        self.continuations = Counter(
            "prover_verifier_continuations_total",
            "Continuations by outcome; a duplicate was played although another one had been recorded.",
            ["outcome"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "prover_verifier_continuation_seconds",
            "Playing one continuation to its end.",
            buckets=_WAITS_S,
            registry=self.registry,
        )
        self.tokens = Counter(
            "prover_verifier_sampled_tokens_total", "Tokens sampled in continuations.", registry=self.registry
        )
        self.analyses = Counter(
            "prover_verifier_analyses_total",
            "Analyses ended here, by state: not_restorable counts the failures to restore.",
            ["status"],
            registry=self.registry,
        )
        self._verified = Counter(
            "prover_verifier_verified_proposals_total",
            "Proposals that were verified, by judge and by the sign of the delta that was found.",
            ["judge", "sign"],
            registry=self.registry,
        )
        self._deltas = Counter(
            "prover_verifier_verified_delta_total",
            "Sizes of those deltas, added up: positive less negative, by the proposals, is the mean delta.",
            ["judge", "sign"],
            registry=self.registry,
        )

    def verified(self, judgement: Judgement, verdicts: tuple[Verification, ...]) -> None:
        """What was found of a judge's proposals. Verdicts that nothing was sampled for say nothing of it."""
        for verdict in verdicts:
            if verdict.before.samples == 0 or verdict.after.samples == 0:
                continue
            sign = "positive" if verdict.delta > 0 else "negative" if verdict.delta < 0 else "zero"
            self._verified.labels(judgement.judge, sign).inc()
            self._deltas.labels(judgement.judge, sign).inc(abs(verdict.delta))
