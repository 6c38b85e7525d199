"""What the learner's knobs mean where they are left out."""

import pytest

from prover.training.learner_experiment import PROBE_NATS, LearnerExperiment


@pytest.mark.parametrize(("dtype", "nats"), [("float32", 0.05), ("bfloat16", 0.5)])
def test_a_probe_allows_for_the_rounding_of_what_is_published(dtype: str, nats: float) -> None:
    assert LearnerExperiment.model_validate({"publish_dtype": dtype}).probe_nats == nats
    assert PROBE_NATS[dtype] == nats


def test_a_named_tolerance_stands_whatever_is_published() -> None:
    assert LearnerExperiment(publish_dtype="bfloat16", probe_tolerance=0.01).probe_nats == 0.01
