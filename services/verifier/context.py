"""The tokens that the policy read at a boundary: recorded ones to the letter, checked; or rebuilt, and said so.

Contexts of an agent are append-only: opening, sampled tokens, reply, sampled tokens, reply. Where the trainer recorded
context tokens, continuations start from those very tokens. They must be what the agent builds from the recorded sampled
tokens; otherwise a continuation would go on in another format than the episode began in.
"""

from collections.abc import Sequence

from prover.agents.agent import Agent
from prover.policies.policy import Policy
from prover.trajectory import Trajectory, Turn
from services.verifier.replay import NotRestorable


async def context_at(
    trajectory: Trajectory, turn: int, *, said: Sequence[str], agent: Agent, policy: Policy, fidelity: str
) -> tuple[int, ...]:
    """The context before turn `turn`. `said` is what `replay` answered. Raises NotRestorable where a recorded context
    is not the agent's."""
    turns = trajectory.turns
    # With "contains" the recorded observation is a whole prompt; the environment's own text stands in said.
    heard = [recorded.observation for recorded in turns[: turn + 1]] if fidelity == "exact" else said
    context = await policy.tokenize(agent.opening(heard[0]))
    trusted = fidelity == "exact"
    for index in range(turn + 1):
        recorded = turns[index]
        if recorded.context_token_ids is not None:
            if trusted:
                _check(index, recorded.context_token_ids, context, agent)
            context, trusted = recorded.context_token_ids, True
        if index == turn:
            break
        sampled = recorded.token_ids
        if sampled is None:
            # Tokens of a text are not unique: what follows is a rebuilding, and proves nothing about a recording.
            sampled, trusted = await policy.tokenize(_ended(recorded, agent)), False
        context = (*context, *sampled, *await policy.tokenize(agent.reply(heard[index + 1])))
    return context


def rebuilt_note(trajectory: Trajectory, turns: Sequence[int], *, agent: str) -> str | None:
    """What a reader should know of the contexts before `turns`; None where all of them were recorded."""
    rebuilt = [turn for turn in turns if trajectory.turns[turn].context_token_ids is None]
    if not rebuilt:
        return None
    texts = any(recorded.token_ids is None for turn in rebuilt for recorded in trajectory.turns[:turn])
    source = "the recorded texts" if texts else "the recorded tokens and observations"
    where = " and ".join(str(turn) for turn in rebuilt)
    return (
        f"no context_token_ids were given before turn {where} of {trajectory.id!r}: "
        f"agent {agent!r} rebuilt the context from {source}"
    )


def _ended(turn: Turn, agent: Agent) -> str:
    """Recorded texts often leave out what ended them."""
    return turn.text if turn.text.endswith(agent.stop_text) else turn.text + agent.stop_text


def _check(index: int, recorded: Sequence[int], built: Sequence[int], agent: Agent) -> None:
    if tuple(recorded) == tuple(built):
        return
    pairs = zip(recorded, built, strict=False)
    at = next((place for place, (one, other) in enumerate(pairs) if one != other), min(len(recorded), len(built)))
    raise NotRestorable(
        f"turn {index}: context_token_ids: from token {at} on recorded {list(recorded[at : at + 8])} "
        f"(of {len(recorded)}), agent {agent.name!r} builds {list(built[at : at + 8])} (of {len(built)}); "
        "expected the same tokens. Choose the agent that made the trajectory"
    )
