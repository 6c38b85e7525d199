"""An environment that does not come back to the same state is found out, by what it says or by its digest."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from chain_world import OPTIONS, mixed_group, with_turn, without_tokens
from verifier_house import open_house

from prover.analysis import Analysis, Options
from prover.credit.advantages import assign_credit
from prover.environments import Environment, Observation, Step
from prover.environments.chain import ChainEnvironment
from prover.lifecycle import Status
from prover.trajectory import Group, Task

ROOM_0, ROOM_1 = (f"You are in room {room} of 5. There is a red door and a blue door." for room in (0, 1))


class Moody(ChainEnvironment):
    """Rooms that do not promise to repeat themselves. `says` changes what is said, `mood` the hidden state."""

    deterministic = False

    def __init__(self, *, can_snapshot: bool, says: Callable[[str], str] = str, mood: str = "") -> None:
        super().__init__()
        self.can_snapshot = can_snapshot
        self._says, self._mood = says, mood

    def reset(self, task: Task) -> Observation:
        return Observation(text=self._says(super().reset(task).text))

    def step(self, action: str) -> Step:
        step = super().step(action)
        return replace(step, observation=self._says(step.observation))

    def digest(self) -> str:
        return super().digest() + self._mood


class Forgetful(ChainEnvironment):
    """Deterministic, but its snapshots lead back to the first room, or nowhere."""

    def __init__(self, *, refuses: bool) -> None:
        super().__init__()
        self._refuses = refuses

    def restore(self, state: bytes) -> None:
        if self._refuses:
            raise ValueError("snapshot: of another release")
        super().restore(state)
        self._room = 0


@dataclass
class Factory:
    """Makes the first environment after one pattern, and every later one after another."""

    first: Callable[[], Environment]
    later: Callable[[], Environment]
    made: int = 0

    def __call__(self, name: str) -> Environment:
        self.made += 1
        return self.first() if self.made == 1 else self.later()


def steady(can_snapshot: bool) -> Callable[[], Environment]:
    return lambda: Moody(can_snapshot=can_snapshot)


async def analysed(
    redis_url: str, folder: Path, make: Callable[[str], Environment], group: Group, options: Options = OPTIONS
) -> Analysis:
    """The analysis at its end; where nothing was verified its advantages are the group's own."""
    async with open_house(redis_url, folder, make_environment=make) as house:
        await house.begin(group, options)
        await house.run()
        analysis = await house.get()
        if analysis.status is Status.NOT_RESTORABLE:
            assert await house.store.credit("a1") == assign_credit(group)
        return analysis


@pytest.mark.parametrize("can_snapshot", [True, False], ids=["snapshots", "replay"])
async def test_an_environment_that_promises_nothing_and_repeats_itself_is_verified(
    redis_url: str, tmp_path: Path, can_snapshot: bool
) -> None:
    factory = Factory(steady(can_snapshot), steady(can_snapshot))
    analysis = await analysed(redis_url, tmp_path, factory, await mixed_group())
    assert (analysis.status, analysis.error) == (Status.DONE, None)
    assert analysis.verification is not None and analysis.verification.after.samples == OPTIONS.samples


async def test_one_that_answers_otherwise_when_asked_again_is_not_restorable_and_both_texts_are_shown(
    redis_url: str, tmp_path: Path
) -> None:
    other = "You are in room 1 of 5. It is dark."
    factory = Factory(
        steady(True), lambda: Moody(can_snapshot=True, says=lambda text: other if text == ROOM_1 else text)
    )
    analysis = await analysed(redis_url, tmp_path, factory, await mixed_group())
    assert analysis.status is Status.NOT_RESTORABLE
    assert analysis.error == (f"turn 1: observation: recorded {ROOM_1!r}, replayed {other!r}; expected the same text")


async def test_both_answers_within_the_recorded_prompt_must_still_be_the_same(redis_url: str, tmp_path: Path) -> None:
    group = without_tokens(await mixed_group())
    for index, turn in enumerate(group.trajectories[0].turns):
        group = with_turn(group, index, observation=f"SYSTEM. {turn.observation} What now?")
    short = ROOM_0.partition(".")[0]
    factory = Factory(
        steady(True), lambda: Moody(can_snapshot=True, says=lambda text: short if text == ROOM_0 else text)
    )
    analysis = await analysed(redis_url, tmp_path, factory, group, replace(OPTIONS, fidelity="contains"))
    assert analysis.status is Status.NOT_RESTORABLE
    assert (analysis.error or "").startswith(
        f"turn 0: observation: replayed {ROOM_0!r}, and {short!r} when replayed again;"
    )


async def test_the_same_words_in_another_state_are_not_restorable(redis_url: str, tmp_path: Path) -> None:
    group = await mixed_group()
    for index in range(len(group.trajectories[0].turns)):
        group = with_turn(group, index, digest=None)
    factory = Factory(steady(True), lambda: Moody(can_snapshot=True, mood="-cross"))
    analysis = await analysed(redis_url, tmp_path, factory, group)
    assert analysis.status is Status.NOT_RESTORABLE
    assert "turn 1: digest: the same actions led a second time to state" in (analysis.error or "")
    assert "-cross'" in (analysis.error or "")


@pytest.mark.parametrize(
    ("refuses", "said"),
    [(False, "turn 1: digest: the continuation begins in state"), (True, "snapshot: of another release")],
)
async def test_a_snapshot_that_leads_elsewhere_yields_no_outcome(
    redis_url: str, tmp_path: Path, refuses: bool, said: str
) -> None:
    analysis = await analysed(redis_url, tmp_path, lambda name: Forgetful(refuses=refuses), await mixed_group())
    assert analysis.status is Status.NOT_RESTORABLE
    assert said in (analysis.error or "")
