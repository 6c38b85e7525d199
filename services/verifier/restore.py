"""A boundary, restored once and then played on from as often as wanted."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from prover.agents.agent import Agent
from prover.environments.environment import Environment
from prover.episodes import Start
from prover.policies.policy import Policy
from prover.trajectory import Trajectory
from services.verifier.context import context_at
from services.verifier.replay import NotRestorable, replay, shown


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
    state = environment.digest()
    if not environment.deterministic:
        _probe(make(), trajectory, turn, fidelity=fidelity, said=said, state=state)
    context = await context_at(trajectory, turn, said=said, agent=agent, policy=policy, fidelity=fidelity)
    begin = Start(observation=trajectory.turns[turn].observation, context_token_ids=context, turns_used=turn)
    snapshot = environment.snapshot() if environment.can_snapshot else None

    def fork() -> Environment:
        fresh = make()
        if snapshot is None:
            replay(fresh, trajectory, turn, fidelity=fidelity)
        else:
            _from_snapshot(fresh, snapshot, turn)
        _same_state(turn, state, fresh.digest(), "continuation begins in")
        return fresh

    return Restored(begin=begin, fork=fork)


def _from_snapshot(fresh: Environment, snapshot: bytes, turn: int) -> None:
    try:
        fresh.restore(snapshot)
    except ValueError as error:
        raise NotRestorable(f"turn {turn}: the environment does not take its own snapshot back: {error}") from error


def _probe(
    again: Environment, trajectory: Trajectory, turn: int, *, fidelity: str, said: Sequence[str], state: str
) -> None:
    """An environment that does not promise to repeat itself is asked to do so once, to the letter."""
    for index, (first, second) in enumerate(zip(said, replay(again, trajectory, turn, fidelity=fidelity), strict=True)):
        if first != second:
            raise NotRestorable(
                f"turn {index}: observation: replayed {shown(first)}, and {shown(second)} when replayed again; "
                f"expected environment {trajectory.task.environment!r} to repeat itself"
            )
    _same_state(turn, state, again.digest(), "same actions led a second time to")


def _same_state(turn: int, expected: str, found: str, how: str) -> None:
    if found != expected:
        raise NotRestorable(f"turn {turn}: digest: the {how} state {found!r}; expected {expected!r}, as replayed first")
