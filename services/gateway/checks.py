"""What is wrong with a submission that is well formed: pure functions that name every mistake they find."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from prover.analysis import Options
from prover.credit.modes import MODES
from services.gateway.models import GroupIn, Submission, TrajectoryIn
from services.gateway.problems import Mistake, shown

_SHARE = Options().audited_share


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownNames:
    """The names that a submission may use. `judges` is None where the judge could not be asked."""

    environments: Collection[str]
    agents: Collection[str]
    modes: Collection[str]
    policies: Collection[str]
    judges: Collection[str] | None


def mistakes(submission: Submission, known: KnownNames) -> list[Mistake]:
    """Everything that is wrong, in the order of the document; empty where an analysis can be made."""
    return [
        *_names(submission, known),
        *_range(submission),
        *_kept(submission),
        *_segments(submission),
        *_json_numbers("group.task.options", submission.group.task.options),
        *_members(submission.group),
        *_rewards(submission),
    ]


def _names(submission: Submission, known: KnownNames) -> Iterator[Mistake]:
    options, task = submission.options, submission.group.task
    # Where the caller plays the continuations, the environment is the caller's own.
    environments = known.environments if options.continuations == "internal" else None
    asked = [
        ("group.task.environment", task.environment, environments),
        ("options.judge", options.judge, known.judges),
        ("options.mode", options.mode, known.modes),
        ("options.agent", options.agent, known.agents),
        ("options.policy", options.policy, known.policies),
    ]
    for field, name, names in asked:
        if name is not None and names is not None and name not in names:
            yield Mistake(field=field, was=shown(name), expected=f"one of {', '.join(sorted(names))}")


def _range(submission: Submission) -> Iterator[Mistake]:
    least, greatest = submission.reward_range
    if least >= greatest:
        field = "options.reward_range" if submission.group.reward_range is None else "group.reward_range"
        yield Mistake(field=field, was=shown([least, greatest]), expected="the least reward, then a greater one")


def _kept(submission: Submission) -> Iterator[Mistake]:
    if submission.options.keep_continuations and submission.options.continuations == "external":
        expected = "false where continuations are external: the caller has them already"
        yield Mistake(field="options.keep_continuations", was="true", expected=expected)


def _segments(submission: Submission) -> Iterator[Mistake]:
    options = submission.options
    chosen = MODES.get(options.mode)
    if chosen is not None and chosen.keeps_record:
        why = f"in mode {options.mode!r}: it pays by the record of a judge's first proposals"
        if options.proposals > 1:
            yield Mistake(field="options.proposals", was=shown(options.proposals), expected=f"1 {why}")
        if options.credit == "signed":
            yield Mistake(field="options.credit", was=shown(options.credit), expected=f"'positive' {why}")
    elif options.audited_share != _SHARE:
        expected = f"{_SHARE}, or mode 'audited': the other modes verify every proposal"
        yield Mistake(field="options.audited_share", was=shown(options.audited_share), expected=expected)
    most = None if chosen is None else chosen.most_samples
    if most is not None and options.samples is not None and options.samples > most:
        expected = f"{most} or left out in mode {options.mode!r}; mode 'fixed' plays as many as it is told"
        yield Mistake(field="options.samples", was=shown(options.samples), expected=expected)
    if options.budget is not None and (chosen is None or not chosen.divides_budget):
        expected = "null, or mode 'adaptive': the other modes play the same number for every segment"
        yield Mistake(field="options.budget", was=shown(options.budget), expected=expected)


def _members(group: GroupIn) -> Iterator[Mistake]:
    first_seen: dict[str, int] = {}
    for index, trajectory in enumerate(group.trajectories):
        where = f"group.trajectories[{index}]"
        earlier = first_seen.setdefault(trajectory.id, index)
        if earlier != index:
            yield Mistake(
                field=f"{where}.id",
                was=shown(trajectory.id),
                expected=f"an id that no other trajectory has; group.trajectories[{earlier}] has it",
            )
        if trajectory.task is not None and trajectory.task != group.task:
            yield Mistake(
                field=f"{where}.task",
                was=shown(trajectory.task.model_dump()),
                expected=f"the group's task, {shown(group.task.model_dump())}",
            )
        if trajectory.policy_version not in (None, group.policy_version):
            yield Mistake(
                field=f"{where}.policy_version",
                was=shown(trajectory.policy_version),
                expected=f"the group's policy_version, {shown(group.policy_version)}",
            )
        yield from _turns(where, trajectory)


def _turns(where: str, trajectory: TrajectoryIn) -> Iterator[Mistake]:
    if trajectory.success and trajectory.ending in ("step_limit", "context_limit"):
        yield Mistake(
            field=f"{where}.success", was="true", expected=f"false, since the ending is {trajectory.ending!r}"
        )
    for number, turn in enumerate(trajectory.turns):
        if turn.logprobs is None:
            continue
        tokens = None if turn.token_ids is None else len(turn.token_ids)
        if tokens != len(turn.logprobs):
            given = "no token_ids were given" if tokens is None else f"{tokens}, one for each of token_ids"
            yield Mistake(
                field=f"{where}.turns[{number}].logprobs", was=f"{len(turn.logprobs)} numbers", expected=given
            )


def _rewards(submission: Submission) -> Iterator[Mistake]:
    least, greatest = submission.reward_range
    for index, trajectory in enumerate(submission.group.trajectories):
        if not least <= trajectory.reward <= greatest:
            yield Mistake(
                field=f"group.trajectories[{index}].reward",
                was=shown(trajectory.reward),
                expected=f"a number from {least} to {greatest} (reward_range)",
            )


def _json_numbers(where: str, value: JsonValue) -> Iterator[Mistake]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _json_numbers(f"{where}.{key}", inner)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _json_numbers(f"{where}[{index}]", inner)
    elif isinstance(value, float) and value - value != 0.0:
        yield Mistake(field=where, was=shown(value), expected="a finite number")
