"""One request for credit: what was asked (`Options`) and where it stands (`Analysis`)."""

from dataclasses import dataclass

from prover.lifecycle import Status
from prover.trajectory import Boundary, Judgement, Verification

MAX_PROPOSALS = 8
"""Segments of one trajectory: more of them would each be too short of anything to tell apart."""

CREDITS = ("positive", "signed")


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
        proposals: most segments of the successful trajectory that are verified, sharing no turn.
        credit: "positive" (the paper's) or "signed": as many segments of failed trajectories are verified too, and
            those that turn out to be mistakes (delta < 0) earn lambda * delta.
        budget: most continuations of the whole analysis; None is `samples` of each boundary.
        audited_share: probability that a proposal is verified, in a mode that pays by a judge's record.
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
    proposals: int = 1
    credit: str = "positive"
    budget: int | None = None
    audited_share: float = 0.25

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ValueError(f"options.samples: was {self.samples}; expected 1 or more")
        if self.weight < 0:
            raise ValueError(f"options.lambda: was {self.weight}; expected 0 or more")
        if self.max_turns < 1:
            raise ValueError(f"options.max_turns: was {self.max_turns}; expected 1 or more")
        if not 1 <= self.proposals <= MAX_PROPOSALS:
            raise ValueError(f"options.proposals: was {self.proposals}; expected 1 to {MAX_PROPOSALS}")
        if not 0 < self.audited_share <= 1:
            raise ValueError(f"options.audited_share: was {self.audited_share}; expected above 0, at most 1")
        if self.credit not in CREDITS:
            raise ValueError(f"options.credit: was {self.credit!r}; expected one of {', '.join(CREDITS)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One boundary's part of a round: samples `first` to `total - 1`.

    Attributes:
        side: what the boundary is called (`prover.boundaries`).
        first: samples that it had when the round began.
        total: samples that it has in all, once the round is complete.
    """

    side: str
    boundary: Boundary
    first: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Continuations that are out to be played. Rounds count from 1; every boundary of the analysis has a share."""

    number: int
    shares: tuple[Share, ...]

    def share(self, side: str) -> Share | None:
        """The boundary's of that name; None where it is none of this analysis."""
        return next((share for share in self.shares if share.side == side), None)


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
    protocol: int = 1
    """What a process must speak to work on it: `prover.protocol`."""
    judgement: Judgement | None = None
    round: Round | None = None
    verifications: tuple[Verification, ...] = ()
    """What outcomes say of each proposal, in the judgement's order. Empty until all of them are settled."""
    error: str | None = None
    note: str | None = None
    """What a reader should know of how the answer came about, such as a context that had to be rebuilt."""

    @property
    def verification(self) -> Verification | None:
        """That of the first proposal."""
        return self.verifications[0] if self.verifications else None
