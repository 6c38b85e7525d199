"""What is asked of a judge, and under which limits."""

from dataclasses import dataclass
from typing import Protocol

from prover.credit.segments import MAX_ACTION_TURNS
from prover.trajectory import Group, Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposeLimits:
    """What one call to a judge may use. Judges without a model look at the first two alone.

    Attributes:
        max_proposals: most segments to name, best first, disjoint.
        max_mistakes: most segments of failed trajectories to name beside them (`services.judge.mistakes`).
        max_action_turns: most action turns of a segment.
        max_repairs: how often an invalid answer is sent back with the reason.
        max_model_calls: most requests to the model, repairs included.
        max_tokens: prompt and completion tokens of all requests together.
        timeout_s: seconds for the whole call.
        max_cost_usd: None is no limit. It needs prices (`Endpoint.prices`).
        seed: makes `random` repeatable.
    """

    max_proposals: int = 1
    max_mistakes: int = 0
    max_action_turns: int = MAX_ACTION_TURNS
    max_repairs: int = 3
    max_model_calls: int = 16
    max_tokens: int = 200_000
    timeout_s: float = 120.0
    max_cost_usd: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("max_proposals", "max_action_turns", "max_model_calls", "max_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: was {getattr(self, name)}; expected at least 1")
        for name in ("max_mistakes", "max_repairs"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: was {getattr(self, name)}; expected 0 or more")
        if not self.timeout_s > 0:
            raise ValueError(f"timeout_s: was {self.timeout_s}; expected more than 0")
        if self.max_cost_usd is not None and not self.max_cost_usd > 0:
            raise ValueError(f"max_cost_usd: was {self.max_cost_usd}; expected more than 0, or none")


class Judge(Protocol):
    """A segment proposer. Safe for many calls in flight on one event loop."""

    @property
    def name(self) -> str:
        """The name in the table of judges."""
        ...

    async def propose(self, group: Group, limits: ProposeLimits) -> Judgement:
        """Names segments of the group's anchor (`prover.credit.eligibility.anchor`).

        Raises ValueError where the group has no success or no failure. Whatever else goes wrong (a model that does
        not answer, limits used up, no valid segment) comes back as `no_proposal_reason`.
        """
        ...


def check_contrast(group: Group) -> None:
    """Raises ValueError unless the group has both a success and a failure."""
    successes = sum(trajectory.success for trajectory in group.trajectories)
    if not 0 < successes < len(group.trajectories):
        raise ValueError(
            f"trajectories: {successes} of {len(group.trajectories)} succeeded; expected at least one success and "
            "at least one failure"
        )
