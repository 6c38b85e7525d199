"""The episode loop that rollout and verifier share: read, write, act, until the end.

`start` opens a fresh episode; a verifier makes its `Start` from a restored boundary instead. From there on both are the
same: `play` continues to the end of the episode. Contexts only ever grow: what the policy has read and written stays as
the very tokens it was.
"""

from dataclasses import dataclass, replace

from prover.agents.agent import Agent
from prover.environments.environment import Environment
from prover.policies.policy import ContextTooLong, Policy, Sampling
from prover.trajectory import Ending, Task, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where an episode goes on from: what the policy reads next, and how many turns are behind it."""

    observation: str
    context_token_ids: tuple[int, ...]
    turns_used: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What was played: the turns from the start on, and how it ended. `reward` is the terminal reward."""

    turns: tuple[Turn, ...]
    reward: float
    success: bool
    ending: Ending
    policy_version: str

    @property
    def sampled_tokens(self) -> int:
        """Tokens that the policy generated."""
        return sum(len(turn.token_ids or ()) for turn in self.turns)


class MixedVersions(Exception):
    """The policy changed in the middle of an episode: its trajectory belongs to no version."""


async def start(environment: Environment, task: Task, *, agent: Agent, policy: Policy) -> Start:
    """Resets the environment and builds the first context."""
    observation = environment.reset(task).text
    return Start(observation=observation, context_token_ids=await policy.tokenize(agent.opening(observation)))


async def stop_tokens(agent: Agent, policy: Policy) -> tuple[int, ...]:
    """The token that ends a turn. ValueError where the policy's tokenizer does not know it as one token."""
    tokens = await policy.tokenize(agent.stop_text)
    if len(tokens) != 1:
        raise ValueError(
            f"agent {agent.name!r}: its stop text {agent.stop_text!r} is {len(tokens)} tokens of this policy; "
            "expected one. Choose an agent that fits the policy"
        )
    return tokens


async def play(
    environment: Environment,
    begin: Start,
    *,
    agent: Agent,
    policy: Policy,
    sampling: Sampling,
    max_turns: int,
) -> Played:
    """Plays on to the end, at most to turn `max_turns` of the episode.

    A text in which no action can be read costs a turn and leaves the environment alone. `sampling.seed`, where given,
    is the first turn's; each later turn takes the next number.
    """
    observation, context = begin.observation, begin.context_token_ids
    turns: list[Turn] = []
    version, reward = "", 0.0
    for index in range(begin.turns_used, max_turns):
        try:
            completion = await policy.complete(context, _for_turn(sampling, index))
        except ContextTooLong:
            return _played(turns, 0.0, False, Ending.CONTEXT_LIMIT, version)
        if version and completion.policy_version != version:
            raise MixedVersions(f"turn {index}: the policy went from {version!r} to {completion.policy_version!r}")
        version = completion.policy_version
        command = agent.action(completion.text).command
        digest = environment.digest()
        step = None if command is None else environment.step(command)
        turns.append(
            Turn(
                observation=observation,
                text=completion.text,
                action=command,
                valid=step is not None and step.valid,
                reward=0.0 if step is None else step.reward,
                context_token_ids=context,
                token_ids=completion.token_ids,
                logprobs=completion.logprobs,
                digest=digest,
            )
        )
        if step is not None:
            observation, reward = step.observation, step.reward
            if step.done:
                return _played(turns, reward, step.success, Ending.FINISHED, version)
        context = (*context, *completion.token_ids, *await policy.tokenize(agent.reply(observation)))
    return _played(turns, 0.0, False, Ending.STEP_LIMIT, version)


def _for_turn(sampling: Sampling, turn: int) -> Sampling:
    return sampling if sampling.seed is None else replace(sampling, seed=sampling.seed + turn)


def _played(turns: list[Turn], reward: float, success: bool, ending: Ending, version: str) -> Played:
    return Played(turns=tuple(turns), reward=reward, success=success, ending=ending, policy_version=version)
