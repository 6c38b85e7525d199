"""One request for credit: what was asked (`Options`) and where it stands (`Analysis`)."""

from dataclasses import dataclass

from prover.lifecycle import Status
from prover.trajectory import Judgement, Verification


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a group is to be analysed. The defaults are for somebody who asks about one group; the paper's are
    `mode="fixed"` with the rest as it is.

    Attributes:
        judge: who proposes the segment: a name of the judge service's table.
        mode: how it is verified: a name of the verifier's table.
        samples: most continuations of one boundary (K).
        weight: multiplies delta (the paper's lambda; "lambda" in JSON).
        max_turns: step limit of an episode; turns already used count.
        policy: name of the policy engine that continuations run on.
        continuations: "internal" (played here) or "external" (played by the caller: pull mode).
        fidelity: how a replayed observation must agree with the recorded one: "exact" or "contains".
        agent: the prompt format that continues the episode.
        temperature, top_p, max_tokens: the sampling settings of the training.
        normalise_std: divide group advantages by their standard deviation.
        allowed_lag: how many versions the policy may have moved on.
        reward_range: least and greatest reward that the caller declares.
        keep_continuations: keep each continuation as a trajectory, to be trained on.
    """

    judge: str = "contrast"
    mode: str = "adaptive"
    samples: int = 8
    weight: float = 1.0
    max_turns: int = 50
    policy: str = "embedded"
    continuations: str = "internal"
    fidelity: str = "exact"
    agent: str = "plain"
    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 32
    normalise_std: bool = False
    allowed_lag: int = 0
    reward_range: tuple[float, float] = (0.0, 1.0)
    keep_continuations: bool = False

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ValueError(f"options.samples: was {self.samples}; expected 1 or more")
        if self.weight < 0:
            raise ValueError(f"options.lambda: was {self.weight}; expected 0 or more")
        if self.max_turns < 1:
            raise ValueError(f"options.max_turns: was {self.max_turns}; expected 1 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """A batch of continuations that is out to be played: how many samples each boundary shall have had after it.

    Attributes:
        number: rounds count from 1.
        before, after: samples of each boundary in all, once the round is complete.
        first_before, first_after: those that it had when the round began.
    """

    number: int
    before: int
    after: int
    first_before: int = 0
    first_after: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """An analysis as it is stored. Times are seconds since 1970."""

    id: str
    status: Status
    options: Options
    policy_version: str
    created_at: float
    updated_at: float
    attempts: int = 0
    judgement: Judgement | None = None
    round: Round | None = None
    verification: Verification | None = None
    error: str | None = None
    note: str | None = None
    """What a reader should know of how the answer came about, such as a context that had to be rebuilt."""
