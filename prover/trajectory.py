"""The nouns: what a policy did, in the words that every service, file and page shares.

Everything here is frozen and checked when it is made, so that code further in never has to ask. Turns count from 0 and
both ends of a segment are inside it. `None` for token fields means "the trainer did not give them", never "empty".

    group = Group(task=task, policy_version="v0", trajectories=(won, lost))
    segment = Segment(trajectory_id="t0", first_turn=4, last_turn=5)
    segment.before  # Boundary(trajectory_id="t0", turn=4): the state before the segment
    segment.after   # Boundary(trajectory_id="t0", turn=6): the state after it
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Ending(StrEnum):
    """How a trajectory ended. A step limit is never a success."""

    FINISHED = "finished"  # the environment said so
    STEP_LIMIT = "step_limit"  # the turns ran out
    CONTEXT_LIMIT = "context_limit"  # the policy could not read any further
    UNKNOWN = "unknown"  # a trainer's trajectory that does not say


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Enough to reset an environment: its name, which of its tasks, and how."""

    environment: str
    task_id: str
    seed: int = 0
    options: Mapping[str, object] = field(default_factory=dict[str, object])

    def __post_init__(self) -> None:
        if not self.environment:
            raise ValueError("task.environment: was empty; expected an environment's name, such as 'alfworld'")
        if not self.task_id:
            raise ValueError("task.task_id: was empty; expected the id of a task of the environment")


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What the policy read, what it wrote, and what came back.

    Attributes:
        observation: the text that the policy read before it acted: the environment's answer to the turn before.
        text: what the policy wrote.
        action: the command taken out of `text`; None where the turn left the environment alone.
        valid: False where the text could not be read as an action or the environment rejected it.
        reward: what the environment paid for the action.
        context_token_ids: every token the policy read before it sampled.
        token_ids: the tokens it sampled, the stop token included.
        logprobs: natural-log probability of each sampled token under the policy that sampled it.
        digest: the environment's digest of the state BEFORE the turn.
    """

    observation: str
    text: str
    action: str | None
    valid: bool = True
    reward: float = 0.0
    context_token_ids: tuple[int, ...] | None = None
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    digest: str | None = None

    def __post_init__(self) -> None:
        if self.logprobs is not None and (self.token_ids is None or len(self.token_ids) != len(self.logprobs)):
            given = "no" if self.token_ids is None else str(len(self.token_ids))
            raise ValueError(f"logprobs: {len(self.logprobs)} values for {given} token_ids; expected one for each")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """One episode of a task by one policy version. `reward` is the terminal reward."""

    id: str
    task: Task
    policy_version: str
    turns: tuple[Turn, ...]
    reward: float
    success: bool
    ending: Ending = Ending.UNKNOWN

    def __post_init__(self) -> None:
        if not self.id:
            raise ValueError("trajectory.id: was empty; expected a name that is unique in the group")
        if not self.turns:
            raise ValueError(f"trajectory {self.id!r}: turns: was empty; expected at least one turn")
        if self.ending in (Ending.STEP_LIMIT, Ending.CONTEXT_LIMIT) and self.success:
            raise ValueError(f"trajectory {self.id!r}: success: was true with ending {self.ending.value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAttempt:
    """A trajectory that did not come about, and why. Neither a success nor a reward of 0: nothing was learned."""

    trajectory_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Trajectories of one task from one policy version: what GRPO compares with each other."""

    task: Task
    policy_version: str
    trajectories: tuple[Trajectory, ...]

    def __post_init__(self) -> None:
        if not self.trajectories:
            raise ValueError("trajectories: was empty; expected at least one")
        seen: set[str] = set()
        for index, trajectory in enumerate(self.trajectories):
            where = f"trajectories[{index}]"
            if trajectory.id in seen:
                raise ValueError(f"{where}.id: {trajectory.id!r} stands twice; expected ids that are unique")
            if trajectory.task != self.task:
                raise ValueError(f"{where}.task: was {trajectory.task}; expected the group's task, {self.task}")
            if trajectory.policy_version != self.policy_version:
                raise ValueError(
                    f"{where}.policy_version: was {trajectory.policy_version!r}; expected {self.policy_version!r}"
                )
            seen.add(trajectory.id)

    def trajectory(self, trajectory_id: str) -> Trajectory:
        """The trajectory of that id. Raises KeyError where there is none."""
        for trajectory in self.trajectories:
            if trajectory.id == trajectory_id:
                return trajectory
        raise KeyError(trajectory_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """The state before turn `turn` of a trajectory, both the environment's and the agent's."""

    trajectory_id: str
    turn: int

    def __post_init__(self) -> None:
        if self.turn < 0:
            raise ValueError(f"boundary.turn: was {self.turn}; expected 0 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Turns `first_turn` to `last_turn` of a trajectory, both inside."""

    trajectory_id: str
    first_turn: int
    last_turn: int

    def __post_init__(self) -> None:
        if not 0 <= self.first_turn <= self.last_turn:
            raise ValueError(
                f"segment: turns {self.first_turn} to {self.last_turn}; expected 0 <= first_turn <= last_turn"
            )

    @property
    def before(self) -> Boundary:
        """The state before the first turn: s_pre of the paper."""
        return Boundary(trajectory_id=self.trajectory_id, turn=self.first_turn)

    @property
    def after(self) -> Boundary:
        """The state after the last turn: s_post of the paper."""
        return Boundary(trajectory_id=self.trajectory_id, turn=self.last_turn + 1)

    def __len__(self) -> int:
        return self.last_turn - self.first_turn + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """Where a judge says to look, and why. It says nothing about how much: outcomes do."""

    segment: Segment
    failure_mode: str
    reason: str
    judge: str
    prompt_version: str = ""
    repairs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeCost:
    """What a judgement cost. `usd` is 0 without prices, `model_calls` without a model and from releases before it."""

    input_tokens: int = 0
    output_tokens: int = 0
    tool_calls: int = 0
    invalid_answers: int = 0
    seconds: float = 0.0
    usd: float = 0.0
    model_calls: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A judge's whole answer: proposals, best first and disjoint, or none and the reason why there is none."""

    judge: str
    prompt_version: str
    proposals: tuple[Proposal, ...]
    no_proposal_reason: str = ""
    cost: JudgeCost = JudgeCost()

    def __post_init__(self) -> None:
        if bool(self.proposals) == bool(self.no_proposal_reason):
            raise ValueError("judgement: expected either proposals or a no_proposal_reason, and not both")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one continuation ended.

    Attributes:
        tokens: what the policy sampled.
        kept_as: names the document that keeps its trajectory, where that was asked for.
        policy_version: which policy sampled it; None where nobody said, as the first release and callers in pull mode.
    """

    success: bool
    reward: float
    tokens: int
    kept_as: str | None = None
    policy_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundaryCount:
    """Continuations from one boundary: how many succeeded, of how many, at what price in sampled tokens.

    `policy_versions` are those of the policies that sampled them, each once, sorted; empty where nobody said.
    """

    successes: int = 0
    samples: int = 0
    tokens: int = 0
    policy_versions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.successes <= self.samples:
            raise ValueError(f"boundary count: {self.successes} successes of {self.samples} samples")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What outcomes say of a segment.

    Attributes:
        delta: estimate of V(after) - V(before), a difference of success probabilities.
        interval: 90% interval of that difference; of which kind is the mode's (docs/verification.md).
        probability_positive: P(delta > 0) given the outcomes.
        bonus: what was added to the advantage of the segment's tokens (lambda included, 0 where nothing was).
    """

    before: BoundaryCount
    after: BoundaryCount
    delta: float
    interval: tuple[float, float]
    probability_positive: float
    bonus: float
    stopped_because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCredit:
    """The advantage of one turn, and of each of its sampled tokens where token ids were given."""

    advantage: float
    token_advantages: tuple[float, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrajectoryCredit:
    """The advantages of one trajectory: `group_advantage` before the segment's bonus, `turns` after it."""

    trajectory_id: str
    group_advantage: float
    turns: tuple[TurnCredit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditedTrajectory:
    """What a learner takes: a trajectory and the advantages of its turns, wherever they came from."""

    trajectory: Trajectory
    credit: TrajectoryCredit

    def __post_init__(self) -> None:
        if len(self.credit.turns) != len(self.trajectory.turns):
            raise ValueError(
                f"credit.turns: {len(self.credit.turns)} for {len(self.trajectory.turns)} turns of "
                f"trajectory {self.trajectory.id!r}; expected one for each"
            )
