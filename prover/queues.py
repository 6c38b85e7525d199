"""Queue and task names: what callers and workers agree on. Messages carry ids, never groups."""

ANALYZE = "analyze"
"""Queue of the coordinator: short tasks that decide what happens next."""

CONTINUE = "continue"
"""Queue of the continuation workers: the expensive work."""

ANALYZE_TASK = "prover.analyze"
"""(analysis_id): take an analysis as far as it goes without waiting. Safe to send again at any time."""

DECIDE_TASK = "prover.decide"
"""(analysis_id, round): all outcomes of a round are in; settle, or plan the next round."""

CONTINUE_TASK = "prover.continue"
"""(analysis_id, round, side, first_sample, samples): play continuations from one boundary, `side` being "before" or
"after"."""
