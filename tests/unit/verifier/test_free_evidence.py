"""Outcomes of the group as samples of a boundary: fair where the whole group passed through it, and biased elsewhere.

docs/verification.md quotes what `pytest -s -m slow tests/unit/verifier/test_free_evidence.py` prints.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from prover.credit.adaptive import Adaptive
from prover.credit.eligibility import ineligible_because
from prover.credit.joint import CELLS, Beliefs, Joint
from prover.credit.rules import Evidence
from prover.environments.chain import DOORS, ChainEnvironment, right_door, value
from prover.trajectory import Boundary, BoundaryCount, Group, Task, Trajectory, Turn
from services.judge.judge import JudgeOptions, ProposeLimits, make
from services.verifier.passing import all_passed_through, passed_through

PIVOTS = (1, 3)
TASK = Task(environment="chain", task_id="6/1,3")
Chances = dict[int, float]
Draw = Callable[[np.random.Generator], Chances]


@dataclass(frozen=True, kw_only=True)
class Found:
    """A proposal that begins later than the group: its true values, and who passed through the state before it."""

    before: float
    after: float
    passed: int
    won: int
    group_successes: int


def uniform(rng: np.random.Generator) -> Chances:
    """Of each pivotal room's right door."""
    return {pivot: float(rng.random()) for pivot in PIVOTS}


def from_the_prior(rng: np.random.Generator) -> Chances:
    """The value of every room up to the first pivotal one is drawn from the rule's own prior."""
    whole, share = rng.beta(*Beliefs().value_shape), rng.random()
    return {PIVOTS[0]: float(whole**share), PIVOTS[1]: float(whole ** (1 - share))}


def walk(rng: np.random.Generator, task: Task, name: str, chance: Callable[[int], float]) -> Trajectory:
    """One trajectory that opens the right door of a room with `chance`."""
    environment, turns = ChainEnvironment(), list[Turn]()
    observation = environment.reset(task).text
    while True:
        right = right_door(task.seed, len(turns))
        door = right if rng.random() < chance(len(turns)) else next(door for door in DOORS if door != right)
        action, digest = f"open {door} door", environment.digest()
        step = environment.step(action)
        turns.append(Turn(observation=observation, text=action, action=action, digest=digest, reward=step.reward))
        observation = step.observation
        if step.done:
            return Trajectory(
                id=name,
                task=task,
                policy_version="v0",
                turns=tuple(turns),
                reward=step.reward,
                success=step.success,
            )


async def proposals(judge: str, draw: Draw, *, groups: int, usual: float = 1.0, seed: int = 0) -> list[Found]:
    """What a judge proposes for eligible groups. `usual`: chance of the usual door where both doors lead on."""
    rng, found, taken = np.random.default_rng(seed), list[Found](), 0
    judging = make(judge, JudgeOptions())
    while taken < groups:
        chances, task = draw(rng), replace(TASK, seed=int(rng.integers(2**31)))
        members = tuple(walk(rng, task, f"t{i}", lambda room, q=chances: q.get(room, usual)) for i in range(8))
        successes = sum(member.success for member in members)
        if ineligible_because(successes, 8) is not None:
            continue
        taken += 1
        group = Group(task=task, policy_version="v0", trajectories=members)
        judgement = await judging.propose(group, ProposeLimits(seed=taken))
        segment = judgement.proposals[0].segment
        if segment.first_turn > 0:
            passed = passed_through(group, segment.before)
            found.append(
                Found(
                    before=value(task, segment.first_turn, chances.__getitem__),
                    after=value(task, segment.last_turn + 1, chances.__getitem__),
                    passed=len(passed),
                    won=sum(member.success for member in passed),
                    group_successes=successes,
                )
            )
    return found


def bias(found: Sequence[Found], *, anchor: bool) -> tuple[float, float]:
    """Rate of success of those who passed, less the truth; mean and half of its 95% interval. `anchor`: it counts."""
    errors = [(one.won - (not anchor)) / (one.passed - (not anchor)) - one.before for one in found]
    return float(np.mean(errors)), float(1.96 * np.std(errors, ddof=1) / len(errors) ** 0.5)


def credited(found: Sequence[Found], *, free: bool) -> tuple[float, float]:
    """Mean continuations of mode adaptive, and the root of its mean square error; `free`: with the group's samples."""
    rng, rule, costs, errors = np.random.default_rng(1), Adaptive(), list[int](), list[float]()
    for one in found:
        seen = Evidence(group_successes=one.group_successes, group_size=8, begins_with_group=free)
        while (plan := rule.plan(seen, samples=8)) is not None:
            seen = replace(
                seen,
                before=_more(rng, seen.before, plan.before, one.before),
                after=_more(rng, seen.after, plan.after, one.after),
            )
        costs.append(seen.before.samples + seen.after.samples)
        errors.append(rule.settle(seen, samples=8, weight=1.0).bonus - max(0.0, one.after - one.before))
    return float(np.mean(costs)), float(np.mean(np.square(errors)) ** 0.5)


def _more(rng: np.random.Generator, count: BoundaryCount, total: int, chance: float) -> BoundaryCount:
    won = int(rng.binomial(total - count.samples, chance))
    return BoundaryCount(successes=count.successes + won, samples=total)


def small_group() -> Group:
    """t0 and t1 do the same for two turns; t2 says it otherwise, and t3 ends after its first turn."""
    turns = tuple(
        Turn(observation=f"room {at}", text="go", action="go", token_ids=(7,), context_token_ids=(at,), digest=str(at))
        for at in range(3)
    )
    others = [turns, (replace(turns[0], token_ids=(8,)), *turns[1:]), turns[:1]]
    members = [
        Trajectory(id=f"t{at}", task=TASK, policy_version="v0", turns=way, reward=float(at == 0), success=at == 0)
        for at, way in enumerate([turns, *others])
    ]
    return Group(task=TASK, policy_version="v0", trajectories=tuple(members))


def test_those_who_passed_through_a_state_did_and_read_the_same_up_to_there() -> None:
    group = small_group()
    names = [
        [member.id for member in passed_through(group, Boundary(trajectory_id="t0", turn=turn))] for turn in range(3)
    ]
    assert names == [["t0", "t1", "t2", "t3"], ["t0", "t1"], ["t0", "t1"]]
    assert [all_passed_through(group, Boundary(trajectory_id="t0", turn=turn)) for turn in (0, 1)] == [True, False]
    with pytest.raises(ValueError, match=r"boundary\.turn: was 1; expected less than 1"):
        passed_through(group, Boundary(trajectory_id="t3", turn=1))


@pytest.mark.parametrize("field", [{"observation": "hall"}, {"context_token_ids": (9,)}, {"digest": "9"}])
def test_another_observation_context_or_digest_is_another_state(field: dict[str, object]) -> None:
    first, second, *others = small_group().trajectories
    second = replace(second, turns=(*second.turns[:2], replace(second.turns[2], **field)))
    group = replace(small_group(), trajectories=(first, second, *others))
    passed = [len(passed_through(group, Boundary(trajectory_id="t0", turn=turn))) for turn in (1, 2)]
    assert passed == [2, 1]


@pytest.mark.parametrize("judge", ["contrast", "random"])
async def test_a_value_that_the_whole_group_passed_through_is_believed_right_on_average(judge: str) -> None:
    """Although the judge looked at those very outcomes, and although only groups with 1 to 3 successes are judged."""
    found = [one for one in await proposals(judge, from_the_prior, groups=300) if one.passed == 8]
    middles = (np.arange(CELLS) + 0.5) / CELLS
    errors = [
        float(
            Joint.prior(Beliefs(), group_successes=one.won, group_size=8, begins_with_group=True).masses.sum(axis=1)
            @ middles
        )
        - one.before
        for one in found
    ]
    assert len(found) >= 80
    assert abs(np.mean(errors)) < 3 * np.std(errors, ddof=1) / len(errors) ** 0.5


async def test_outcomes_of_only_some_are_not_samples_without_the_anchor_nor_with_it() -> None:
    found = [one for one in await proposals("contrast", uniform, groups=200, usual=0.8) if 1 < one.passed < 8]
    (without, spread), (included, other_spread) = (bias(found, anchor=anchor) for anchor in (False, True))
    assert without + spread < -0.05
    assert included - other_spread > 0.02


@pytest.mark.slow
@pytest.mark.parametrize("usual", [1.0, 0.8])
@pytest.mark.parametrize("judge", ["contrast", "random"])
async def test_how_often_and_by_how_much_outcomes_of_the_group_mislead(judge: str, usual: float) -> None:
    found = await proposals(judge, uniform, groups=300, usual=usual, seed=5)
    everyone, some = [one for one in found if one.passed == 8], [one for one in found if 1 < one.passed < 8]
    print(f"\n{judge}, usual door {usual:g}, {len(found)} proposals after turn 0")  # noqa: T201
    for who, part in (("all", everyone), ("some", some)):
        (without, spread), (included, other) = (bias(part, anchor=anchor) for anchor in (False, True))
        rates = f"{without:+.3f} +-{spread:.3f} without the anchor, {included:+.3f} +-{other:.3f} with it"
        print(f"  {who} passed in {len(part)}: rate less true success probability {rates}")  # noqa: T201
        assert without + spread < 0.0
    (cost, error), (free_cost, free_error) = (credited(everyone, free=free) for free in (False, True))
    print(  # noqa: T201
        f"  adaptive where all passed: {cost:.1f} continuations a proposal and RMSE {error:.3f}; "
        f"with the group's outcomes {free_cost:.1f} and {free_error:.3f}"
    )
    assert free_cost < cost - 1.0
