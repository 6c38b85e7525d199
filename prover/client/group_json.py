"""Nouns as the JSON that `POST /v1/analyses` takes."""

from prover.analysis import Options
from prover.client.documents import Json
from prover.protocol import later_asked
from prover.trajectory import Group, Task, Trajectory, Turn


def group_to_json(group: Group) -> dict[str, Json]:
    """A group. The gateway's models read it back into the same group."""
    return {
        "task": _task(group.task),
        "policy_version": group.policy_version,
        "trajectories": [_trajectory(trajectory) for trajectory in group.trajectories],
    }


def options_to_json(options: Options) -> dict[str, Json]:
    """Options; `weight` is "lambda" there. Later ones where they are needed alone: earlier gateways refuse them."""
    later: dict[str, Json] = {name: getattr(options, name) for name in later_asked(options)}
    return later | {
        "judge": options.judge,
        "mode": options.mode,
        "samples": options.samples,
        "lambda": options.weight,
        "max_turns": options.max_turns,
        "policy": options.policy,
        "continuations": options.continuations,
        "fidelity": options.fidelity,
        "agent": options.agent,
        "temperature": options.temperature,
        "top_p": options.top_p,
        "max_tokens": options.max_tokens,
        "normalise_std": options.normalise_std,
        "allowed_lag": options.allowed_lag,
        "reward_range": list(options.reward_range),
        "keep_continuations": options.keep_continuations,
        "proposals": options.proposals,
        "credit": options.credit,
        "budget": options.budget,
    }


def _task(task: Task) -> dict[str, Json]:
    return {
        "environment": task.environment,
        "task_id": task.task_id,
        "seed": task.seed,
        "options": dict(task.options),
    }


def _trajectory(trajectory: Trajectory) -> dict[str, Json]:
    return {
        "id": trajectory.id,
        "reward": trajectory.reward,
        "success": trajectory.success,
        "ending": trajectory.ending.value,
        "turns": [_turn(turn) for turn in trajectory.turns],
    }


def _turn(turn: Turn) -> dict[str, Json]:
    return {
        "observation": turn.observation,
        "context_token_ids": None if turn.context_token_ids is None else list(turn.context_token_ids),
        "text": turn.text,
        "token_ids": None if turn.token_ids is None else list(turn.token_ids),
        "logprobs": None if turn.logprobs is None else list(turn.logprobs),
        "action": turn.action,
        "valid": turn.valid,
        "reward": turn.reward,
        "digest": turn.digest,
    }
