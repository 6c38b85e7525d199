"""What /metrics shows: read from the engine when asked, so that the engine knows nothing of Prometheus."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from services.engine.engine import Engine


class EngineCollector(Collector):
    """Counters and gauges of one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def collect(self) -> Iterator[Metric]:
        """Called at each scrape."""
        status = self._engine.status()
        counters = status.counters
        yield InfoMetricFamily("prover_engine_weights", "Version that is served", {"version": status.version})
        gauges = {
            "running_sequences": ("Sequences that are being decoded", status.running),
            "waiting_sequences": ("Sequences that wait for a place in the batch", status.waiting),
            "cached_sequences": ("Finished sequences whose keys and values are kept", status.cached_sequences),
            "cached_bytes": ("Memory of those", status.cached_bytes),
        }
        for name, (text, value) in gauges.items():
            yield GaugeMetricFamily(f"prover_engine_{name}", text, value=value)
        totals = {
            "steps": ("Forward passes", counters.steps),
            "prompt_tokens": ("Tokens of prompts", counters.prompt_tokens),
            "reused_tokens": ("Tokens of prompts that were not computed again", counters.reused_tokens),
            "computed_tokens": ("Tokens that went through the model", counters.computed_tokens),
            "generated_tokens": ("Sampled tokens", counters.generated_tokens),
        }
        for name, (text, value) in totals.items():
            yield CounterMetricFamily(f"prover_engine_{name}", text, value=value)
        finished = CounterMetricFamily("prover_engine_finished", "Sequences by how they ended", labels=["reason"])
        for reason, count in counters.finished.items():
            finished.add_metric([reason], count)
        yield finished
