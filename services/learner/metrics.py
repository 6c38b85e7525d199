"""What the learner counts, for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from prover.policies.publish import Published
from prover.training import StepMetrics

_SECONDS = (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)
_SHOWN = {
    "loss": "What was minimised.",
    "gradient_norm": "L2 norm before clipping.",
    "clip_fraction": "Share of sampled tokens whose probability ratio was clipped.",
    "engine_kl": "Nats a sampled token: engine against trainer. Alert on it.",
    "reference_kl": "Nats a sampled token: policy against reference.",
    "entropy": "Nats a sampled token.",
    "padding": "Share of computed tokens that were padding.",
}


class LearnerMetrics:
    """An `Observer` that counts."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._step = Gauge("prover_learner_step", "Optimizer steps taken.", registry=registry)
        self._last = {
            name: Gauge(f"prover_learner_{name}", f"{text} Of the last step.", registry=registry)
            for name, text in _SHOWN.items()
        }
        self._tokens = Counter("prover_learner_sampled_tokens", "Sampled tokens trained on.", registry=registry)
        self._computed = Counter("prover_learner_computed_tokens", "Tokens computed.", registry=registry)
        self._seconds = Histogram("prover_learner_seconds", "Seconds of a step.", buckets=_SECONDS, registry=registry)
        self._publishes = Counter("prover_learner_publishes", "Publishes.", ["result"], registry=registry)
        self._probe = Gauge(
            "prover_learner_probe_difference", "Nats between trainer and engine, last publish.", registry=registry
        )

    def stepped(self, metrics: StepMetrics) -> None:
        """One step."""
        self._step.set(metrics.step)
        for name, gauge in self._last.items():
            gauge.set(getattr(metrics, name))
        self._tokens.inc(metrics.sampled_tokens)
        self._computed.inc(metrics.computed_tokens)
        self._seconds.observe(metrics.seconds)

    def published(self, published: Published) -> None:
        """A version serves."""
        self._publishes.labels("served").inc()
        self._probe.set(published.probe_difference)

    def failed_to_publish(self) -> None:
        """A version does not."""
        self._publishes.labels("failed").inc()
