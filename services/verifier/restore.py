"""A boundary, restored once and then played on from as often as wanted."""

from collections.abc import Callable
from dataclasses import dataclass

from prover.agents.agent import Agent
from prover.environments.environment import Environment
from prover.episodes import Start
from prover.policies.policy import Policy
from prover.trajectory import Trajectory
from services.verifier.context import context_at
from services.verifier.replay import NotRestorable, replay


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """A state to go on from: what the policy reads, and `fork`, which gives a new environment that stands there."""

    begin: Start
    fork: Callable[[], Environment]


async def restore(
    trajectory: Trajectory,
    turn: int,
    *,
    make: Callable[[], Environment],
    agent: Agent,
    policy: Policy,
    fidelity: str,
) -> Restored:
    """The state before turn `turn`, checked. Raises NotRestorable; ValueError where the task is unknown."""
    environment = make()
    said = replay(environment, trajectory, turn, fidelity=fidelity)
    if not environment.deterministic:
        _probe(environment, make(), trajectory, turn, fidelity)
    context = await context_at(trajectory, turn, said=said, agent=agent, policy=policy, fidelity=fidelity)
    begin = Start(observation=trajectory.turns[turn].observation, context_token_ids=context, turns_used=turn)
    if environment.can_snapshot:
        state = environment.snapshot()

        def from_snapshot() -> Environment:
            fresh = make()
            fresh.restore(state)
            return fresh

        return Restored(begin=begin, fork=from_snapshot)

    def by_replay() -> Environment:
        fresh = make()
        replay(fresh, trajectory, turn, fidelity=fidelity)
        return fresh

    return Restored(begin=begin, fork=by_replay)


def _probe(first: Environment, second: Environment, trajectory: Trajectory, turn: int, fidelity: str) -> None:
    """An environment that does not promise to repeat itself is asked to do so once."""
    replay(second, trajectory, turn, fidelity=fidelity)
    if first.digest() != second.digest():
        raise NotRestorable(
            f"turn {turn}: the same actions led to state {first.digest()!r} and then to {second.digest()!r}; "
            f"expected environment {trajectory.task.environment!r} to repeat itself"
        )
