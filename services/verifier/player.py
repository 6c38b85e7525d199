"""One boundary, ready to be played on from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from prover import agents
from prover.agents.agent import Agent
from prover.analysis import Options
from prover.environments.environment import Environment
from prover.episodes import MixedVersions, Played, play, stop_tokens
from prover.policies.policy import Policy, PolicyError, Sampling
from prover.trajectory import Boundary, Group
from services.verifier.restore import Restored, restore
from services.verifier.versions import Stale, check_version


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What continuations are played with: engines by name, and new environments by name."""

    policies: Mapping[str, Policy]
    make_environment: Callable[[str], Environment]

    def policy(self, name: str) -> Policy:
        """ValueError lists the known ones."""
        if name not in self.policies:
            raise ValueError(f"options.policy: was {name!r}; expected one of {', '.join(sorted(self.policies))}")
        return self.policies[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Player:
    """Plays continuations of one boundary, as many at a time as are asked for."""

    restored: Restored
    agent: Agent
    policy: Policy
    sampling: Sampling
    max_turns: int
    group_version: str
    allowed_lag: int

    async def play(self) -> Played:
        """One continuation. Raises Stale where another policy sampled it, PolicyError where none did."""
        try:
            played = await play(
                self.restored.fork(),
                self.restored.begin,
                agent=self.agent,
                policy=self.policy,
                sampling=self.sampling,
                max_turns=self.max_turns,
            )
        except MixedVersions as error:
            if self.allowed_lag == 0:
                raise Stale(f"policy_version: the group is from {self.group_version!r}; {error}") from error
            raise PolicyError(f"the policy changed in mid-episode: {error}") from error
        if played.turns:
            check_version(self.group_version, played.policy_version, allowed_lag=self.allowed_lag)
        return played


async def prepare(world: World, group: Group, boundary: Boundary, options: Options) -> Player:
    """Restores a boundary for the policy that made the group.

    Raises NotRestorable; Stale; PolicyError; ValueError where the request names something unknown.
    """
    policy = world.policy(options.policy)
    info = await policy.info()
    # The engine may have moved on and serve the group's own version still, under its name.
    named = group.policy_version if group.policy_version in info.versions else None
    check_version(group.policy_version, named or info.version, allowed_lag=options.allowed_lag)
    agent = agents.make(options.agent)
    restored = await restore(
        group.trajectory(boundary.trajectory_id),
        boundary.turn,
        make=lambda: world.make_environment(group.task.environment),
        agent=agent,
        policy=policy,
        fidelity=options.fidelity,
    )
    return Player(
        restored=restored,
        agent=agent,
        policy=policy,
        sampling=Sampling(
            temperature=options.temperature,
            top_p=options.top_p,
            max_tokens=options.max_tokens,
            stop_token_ids=await stop_tokens(agent, policy),
            version=named,
        ),
        max_turns=options.max_turns,
        group_version=group.policy_version,
        allowed_lag=options.allowed_lag,
    )
