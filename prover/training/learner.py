"""What the learner tells of itself: the nouns that its service and its clients share."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMetrics:
    """What one optimizer step did.

    Attributes:
        step: optimizer steps taken so far. The same as before where the batch held no signal (every advantage 0):
            then nothing was changed.
        loss: what was minimised, before the step.
        gradient_norm: L2 norm before clipping.
        clip_fraction: share of sampled tokens whose probability ratio was clipped.
        engine_kl: nats, mean over sampled tokens: engine's against trainer's log-probabilities, before the step.
        entropy: nats, mean over sampled tokens.
        sampled_tokens: tokens that were trained on.
        sequences: what the turns were merged into.
        padding: share of the tokens computed that were padding.
        seconds: wall time.
        reference_kl: nats, mean over sampled tokens; 0 where no reference is kept.
        computed_tokens: tokens that went through the model, contexts included.
    """

    step: int
    loss: float
    gradient_norm: float
    clip_fraction: float
    engine_kl: float
    entropy: float
    sampled_tokens: int
    sequences: int
    padding: float
    seconds: float
    reference_kl: float = 0.0
    computed_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerState:
    """Optimizer steps taken, the version that the present weights have or will be published as, and the last one
    that was published ("" before the first)."""

    step: int
    version: str
    published: str
