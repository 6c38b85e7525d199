"""What the judge service counts, for Prometheus. Whether a proposal was accepted is known to the verifier alone."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from prover.trajectory import Judgement

_SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300)
_TURNS = (1, 2, 3, 4, 6, 8)


class JudgeMetrics:
    """Everything carries the judge's name as label."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._proposals = Counter("prover_judge_proposals", "Segments proposed.", ["judge"], registry=registry)
        self._none = Counter("prover_judge_no_proposal", "Groups without a proposal.", ["judge"], registry=registry)
        self._repairs = Counter(
            "prover_judge_repairs", "Invalid answers that were made good.", ["judge"], registry=registry
        )
        self._invalid = Counter("prover_judge_invalid_answers", "Invalid answers.", ["judge"], registry=registry)
        self._model_calls = Counter(
            "prover_judge_model_calls", "Requests answered by the model.", ["judge"], registry=registry
        )
        self._tool_calls = Counter("prover_judge_tool_calls", "Tool calls answered.", ["judge"], registry=registry)
        self._tokens = Counter(
            "prover_judge_tokens",
            "Tokens read (input) and written (output).",
            ["judge", "direction"],
            registry=registry,
        )
        self._usd = Counter("prover_judge_cost_usd", "US dollars, where prices are set.", ["judge"], registry=registry)
        self._seconds = Histogram(
            "prover_judge_seconds", "Seconds a judgement took.", ["judge"], buckets=_SECONDS, registry=registry
        )
        self._turns = Histogram(
            "prover_judge_segment_turns", "Turns of a segment.", ["judge"], buckets=_TURNS, registry=registry
        )

    def judged(self, judgement: Judgement) -> None:
        """One judgement."""
        judge, cost = judgement.judge, judgement.cost
        self._proposals.labels(judge).inc(len(judgement.proposals))
        self._none.labels(judge).inc(0 if judgement.proposals else 1)
        self._repairs.labels(judge).inc(judgement.proposals[0].repairs if judgement.proposals else 0)
        self._invalid.labels(judge).inc(cost.invalid_answers)
        self._model_calls.labels(judge).inc(cost.model_calls)
        self._tool_calls.labels(judge).inc(cost.tool_calls)
        self._tokens.labels(judge, "input").inc(cost.input_tokens)
        self._tokens.labels(judge, "output").inc(cost.output_tokens)
        self._usd.labels(judge).inc(cost.usd)
        self._seconds.labels(judge).observe(cost.seconds)
        for proposal in judgement.proposals:
            self._turns.labels(judge).observe(len(proposal.segment))
