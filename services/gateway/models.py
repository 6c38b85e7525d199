"""What a caller may send: pydantic models of the request bodies, strict, with examples, and their way to the nouns.

Unknown keys are refused, numbers are numbers (no "1", no true, no NaN), and every bound is finite. What the nouns check
again is checked here first, so that the caller is told field, value and expectation, and all mistakes at once.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from prover.analysis import MAX_PROPOSALS, Options
from prover.credit import modes
from prover.trajectory import Ending, Group, Task, Trajectory, Turn
from services.gateway.examples import OPTIONS_EXAMPLE, SUBMISSION_EXAMPLE

_Name = Annotated[str, Field(min_length=1, max_length=200)]
_DEFAULTS = Options()
_TokenId = Annotated[int, Field(ge=0, lt=2**31)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class TaskIn(_Strict):
    """Enough to reset an environment."""

    environment: _Name = Field(description="A name that the service knows; any name for external continuations.")
    task_id: Annotated[str, Field(min_length=1, max_length=1000)]
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] = 0
    options: dict[str, JsonValue] = Field(default_factory=dict)

    def to_noun(self) -> Task:
        """The same as a noun."""
        return Task(environment=self.environment, task_id=self.task_id, seed=self.seed, options=self.options)


class TurnIn(_Strict):
    """What the policy read, what it wrote, and what came back."""

    observation: str = Field(description="The text that the policy read before it acted, verbatim.")
    text: str = Field(description="What the policy wrote.")
    action: str | None = Field(default=None, description="The command in `text`; null left the environment alone.")
    valid: bool = True
    reward: float = 0.0
    context_token_ids: tuple[_TokenId, ...] | None = None
    token_ids: tuple[_TokenId, ...] | None = Field(default=None, description="The sampled tokens, stop token included.")
    logprobs: tuple[float, ...] | None = Field(default=None, description="Natural logarithms, one for each token id.")
    digest: str | None = Field(default=None, description="The environment's digest of the state before the turn.")

    def to_noun(self) -> Turn:
        """The same as a noun."""
        return Turn(
            observation=self.observation,
            text=self.text,
            action=self.action,
            valid=self.valid,
            reward=self.reward,
            context_token_ids=self.context_token_ids,
            token_ids=self.token_ids,
            logprobs=self.logprobs,
            digest=self.digest,
        )


class TrajectoryIn(_Strict):
    """One episode. `task` and `policy_version` are the group's; where they are given they must agree with it."""

    id: _Name
    reward: float = Field(description="Terminal reward, within reward_range.")
    success: bool
    turns: Annotated[tuple[TurnIn, ...], Field(min_length=1, max_length=10_000)]
    ending: Literal["finished", "step_limit", "context_limit", "unknown"] = "unknown"
    task: TaskIn | None = None
    policy_version: _Name | None = None

    def to_noun(self, task: Task, policy_version: str) -> Trajectory:
        """The same as a noun, of the group's task and version."""
        return Trajectory(
            id=self.id,
            task=task,
            policy_version=policy_version,
            turns=tuple(turn.to_noun() for turn in self.turns),
            reward=self.reward,
            success=self.success,
            ending=Ending(self.ending),
        )


class GroupIn(_Strict):
    """Trajectories of one task from one policy version."""

    task: TaskIn
    policy_version: _Name | None = Field(default=None, description="null means the policy engine's present version.")
    trajectories: Annotated[tuple[TrajectoryIn, ...], Field(min_length=1, max_length=1024)]
    reward_range: tuple[float, float] | None = Field(default=None, description="Overrides options.reward_range.")

    def to_noun(self, policy_version: str) -> Group:
        """The same as a noun. ValueError where the body has not passed `checks.mistakes`."""
        task = self.task.to_noun()
        return Group(
            task=task,
            policy_version=policy_version,
            trajectories=tuple(trajectory.to_noun(task, policy_version) for trajectory in self.trajectories),
        )


class OptionsIn(_Strict):
    """How the group is to be analysed. What is left out has the default; samples and lambda have their mode's."""

    model_config = ConfigDict(json_schema_extra={"examples": [OPTIONS_EXAMPLE]})

    judge: _Name = _DEFAULTS.judge
    mode: _Name = _DEFAULTS.mode
    samples: Annotated[int | None, Field(ge=1, le=1024, description="Most continuations of a boundary (K).")] = None
    weight: Annotated[float | None, Field(ge=0, le=1000, alias="lambda", description="Multiplies delta.")] = None
    max_turns: Annotated[int, Field(ge=1, le=10_000)] = _DEFAULTS.max_turns
    policy: _Name | None = Field(default=None, description="null or absent: the first engine the gateway knows.")
    continuations: Literal["internal", "external"] = Field(
        default="internal", description="internal: played by the service; external: by the caller (pull mode)."
    )
    fidelity: Literal["exact", "contains"] = "exact"
    agent: _Name = _DEFAULTS.agent
    temperature: Annotated[float, Field(ge=0, le=100)] = _DEFAULTS.temperature
    top_p: Annotated[float, Field(gt=0, le=1)] = _DEFAULTS.top_p
    max_tokens: Annotated[int, Field(ge=1, le=100_000)] = _DEFAULTS.max_tokens
    normalise_std: bool = _DEFAULTS.normalise_std
    allowed_lag: Annotated[int, Field(ge=0, le=1_000_000)] = _DEFAULTS.allowed_lag
    reward_range: tuple[float, float] = Field(
        default=_DEFAULTS.reward_range, description="Least and greatest terminal reward."
    )

    keep_continuations: bool = Field(
        default=False, description="Keep each continuation as a trajectory, to be trained on."
    )

    proposals: Annotated[
        int, Field(ge=1, le=MAX_PROPOSALS, description="Most segments of the success, sharing no turn.")
    ] = _DEFAULTS.proposals
    credit: Literal["positive", "signed"] = Field(
        default="positive", description="signed: also verified mistakes of failed trajectories, lambda * min(delta, 0)."
    )
    budget: Annotated[
        int | None, Field(ge=4, le=100_000, description="Most continuations of the analysis (adaptive).")
    ] = None
    audited_share: Annotated[
        float, Field(gt=0, le=1, description="Probability that a proposal is verified (audited).")
    ] = _DEFAULTS.audited_share

    def to_noun(self, *, policy: str, reward_range: tuple[float, float]) -> Options:
        """The same as a noun, with the engine and the reward range that apply, and the mode's own K and lambda.

        ValueError where the mode is not known.
        """
        defaults = modes.mode(self.mode)
        resolved: dict[str, Any] = {
            "policy": policy,
            "reward_range": reward_range,
            "samples": defaults.samples if self.samples is None else self.samples,
            "weight": defaults.weight if self.weight is None else self.weight,
        }
        return Options(**{**self.model_dump(by_alias=False), **resolved})


class Submission(_Strict):
    """The body of `POST /v1/analyses`."""

    model_config = ConfigDict(json_schema_extra={"examples": [SUBMISSION_EXAMPLE]})

    group: GroupIn
    options: OptionsIn = Field(default_factory=OptionsIn)

    @property
    def reward_range(self) -> tuple[float, float]:
        """The declared range: the group's where it has one, else the options'."""
        return self.options.reward_range if self.group.reward_range is None else self.group.reward_range


class OutcomeIn(_Strict):
    """How one continuation ended that the caller has played."""

    request_id: _Name
    sample: Annotated[int, Field(ge=0, lt=2**31, description="From 0 within the request.")]
    success: bool
    reward: float = Field(description="Terminal reward, within reward_range.")
    tokens: Annotated[int, Field(ge=0, lt=2**31, description="That the policy sampled; 0 where nobody counted.")] = 0


class OutcomesIn(_Strict):
    """The body of `POST /v1/analyses/{id}/outcomes`."""

    outcomes: Annotated[tuple[OutcomeIn, ...], Field(min_length=1, max_length=10_000)]
