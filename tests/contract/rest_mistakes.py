"""What can be wrong with a submission: the change that makes the mistake, the field, what it was, what was expected."""

import copy
from collections.abc import Callable
from typing import Any

from services.gateway.examples import SUBMISSION_EXAMPLE

Body = dict[str, Any]


def with_change(change: Callable[[Body], object]) -> Body:
    body: Body = copy.deepcopy(SUBMISSION_EXAMPLE)
    change(body)
    return body


def trajectory(body: Body, index: int = 0) -> Body:
    return body["group"]["trajectories"][index]


def turn(body: Body) -> Body:
    return trajectory(body)["turns"][1]


MISTAKES: dict[str, tuple[Callable[[Body], object], str, str, str]] = {
    "logprobs that are too few": (
        lambda body: turn(body).update(logprobs=[-0.5]),
        "group.trajectories[0].turns[1].logprobs",
        "1 numbers",
        "2, one for each of token_ids",
    ),
    "logprobs without token ids": (
        lambda body: turn(body).update(token_ids=None),
        "group.trajectories[0].turns[1].logprobs",
        "2 numbers",
        "no token_ids were given",
    ),
    "another task": (
        lambda body: trajectory(body, 1).update(task={"environment": "alfworld", "task_id": "generated/other/1"}),
        "group.trajectories[1].task",
        "generated/other/1",
        "generated/pick_and_place_simple/7",
    ),
    "another policy version": (
        lambda body: trajectory(body, 1).update(policy_version="v9"),
        "group.trajectories[1].policy_version",
        "'v9'",
        "'v0'",
    ),
    "a reward out of range": (
        lambda body: trajectory(body).update(reward=3.0),
        "group.trajectories[0].reward",
        "3.0",
        "from 0.0 to 1.0",
    ),
    "a reward out of its own range": (
        lambda body: body["options"].update(reward_range=[-1.0, 0.5]),
        "group.trajectories[0].reward",
        "1.0",
        "from -1.0 to 0.5",
    ),
    "a range the wrong way round": (
        lambda body: body["group"].update(reward_range=[1.0, 0.0]),
        "group.reward_range",
        "[1.0, 0.0]",
        "the least reward, then a greater one",
    ),
    "a share in a mode that verifies everything": (
        lambda body: body["options"].update(audited_share=0.5),
        "options.audited_share",
        "0.5",
        "0.25, or mode 'audited'",
    ),
    "an unknown environment": (
        lambda body: body["group"]["task"].update(environment="minecraft"),
        "group.task.environment",
        "'minecraft'",
        "alfworld",
    ),
    "an unknown task": (
        lambda body: body["group"]["task"].update(task_id="valid_seen/nowhere"),
        "group.task.task_id",
        "'valid_seen/nowhere'",
        "generated/TYPE/SEED",
    ),
    "the same id twice": (
        lambda body: trajectory(body, 1).update(id="t0"),
        "group.trajectories[1].id",
        "'t0'",
        "group.trajectories[0] has it",
    ),
    "an empty group": (lambda body: body["group"].update(trajectories=[]), "group.trajectories", "[]", "at least 1"),
    "no turns": (lambda body: trajectory(body).update(turns=[]), "group.trajectories[0].turns", "[]", "at least 1"),
    "an unknown judge": (lambda body: body["options"].update(judge="oracle"), "options.judge", "'oracle'", "contrast"),
    "an unknown mode": (lambda body: body["options"].update(mode="psychic"), "options.mode", "'psychic'", "fixed"),
    "an unknown agent": (lambda body: body["options"].update(agent="smith"), "options.agent", "'smith'", "plain"),
    "an unknown engine": (lambda body: body["options"].update(policy="gpt"), "options.policy", "'gpt'", "embedded"),
    "an unknown fidelity": (
        lambda body: body["options"].update(fidelity="roughly"),
        "options.fidelity",
        "'roughly'",
        "'exact' or 'contains'",
    ),
    "a misspelt option": (
        lambda body: body["options"].update(lamda=1.0),
        "options.lamda",
        "1.0",
        "no field of this name",
    ),
    "no samples": (
        lambda body: body["options"].update(samples=0),
        "options.samples",
        "0",
        "greater than or equal to 1",
    ),
    "more samples than frugal plays": (
        lambda body: body["options"].update(mode="frugal", samples=2),
        "options.samples",
        "2",
        "1 or left out in mode 'frugal'",
    ),
    "a negative lambda": (lambda body: body["options"].update({"lambda": -1}), "options.lambda", "-1", "equal to 0"),
    "a number as text": (
        lambda body: trajectory(body).update(reward="1"),
        "group.trajectories[0].reward",
        "'1'",
        "a valid number",
    ),
    "a truth value for a number": (
        lambda body: trajectory(body).update(reward=True),
        "group.trajectories[0].reward",
        "True",
        "a valid number",
    ),
    "a negative token id": (
        lambda body: turn(body).update(token_ids=[-1, 2]),
        "group.trajectories[0].turns[1].token_ids[0]",
        "-1",
        "equal to 0",
    ),
    "a missing observation": (
        lambda body: turn(body).pop("observation"),
        "group.trajectories[0].turns[1].observation",
        "nothing",
        "this field",
    ),
    "no group": (lambda body: body.pop("group"), "group", "nothing", "this field"),
    "a success at the step limit": (
        lambda body: trajectory(body).update(ending="step_limit"),
        "group.trajectories[0].success",
        "true",
        "false",
    ),
    "a task option that is no number": (
        lambda body: body["group"]["task"]["options"].update(scale=float("inf")),
        "group.task.options.scale",
        "inf",
        "a finite number",
    ),
    "a reward that is no number": (
        lambda body: trajectory(body).update(reward=float("nan")),
        "group.trajectories[0].reward",
        "nan",
        "a finite number",
    ),
}
