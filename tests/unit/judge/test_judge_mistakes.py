"""Where failed runs go wrong: asked for where credit is signed."""

from dataclasses import replace

import pytest

from prover.credit.segments import segment_fault
from prover.trajectory import Group, Trajectory
from services.judge.judge import JudgeOptions, ProposeLimits, make
from services.judge.llm import Endpoint
from tests.unit.judge.builders import bell, group, trajectory

SIGNED = ProposeLimits(max_mistakes=1)


def with_digests(run: Trajectory, *digests: str) -> Trajectory:
    turns = tuple(replace(turn, digest=digest) for turn, digest in zip(run.turns, digests, strict=True))
    return replace(run, turns=turns)


def forked() -> Group:
    """From the fork in the state "f" one way leads out; the failed runs took the other one and wandered on."""
    won = with_digests(trajectory("won", ["walk", "left", "out"], success=True), "s", "f", "l")
    lost = with_digests(trajectory("lost", ["walk", "right", "wander", "wander"]), "s", "f", "r", "r")
    again = replace(lost, id="again")
    early = with_digests(trajectory("early", ["sit", "wander", "wander"]), "s", "c", "c")
    return group(won, lost, again, early)


async def test_contrast_finds_the_step_at_which_a_failed_run_left_the_way() -> None:
    found = await make("contrast", JudgeOptions()).propose(forked(), SIGNED)
    success, mistake = found.proposals
    assert success.segment.trajectory_id == "won"
    assert (mistake.segment.trajectory_id, mistake.segment.first_turn, mistake.segment.last_turn) == ("lost", 1, 1)
    assert "'right'" in mistake.failure_mode


async def test_what_two_runs_did_alike_is_one_mistake_and_each_run_has_at_most_one() -> None:
    found = await make("contrast", JudgeOptions()).propose(forked(), ProposeLimits(max_mistakes=8))
    runs = [proposal.segment.trajectory_id for proposal in found.proposals[1:]]
    assert sorted(runs) == ["early", "lost"]


async def test_without_digests_the_first_step_off_the_way_is_the_mistake() -> None:
    whole = forked()
    bare = replace(
        whole,
        trajectories=tuple(
            replace(run, turns=tuple(replace(turn, digest=None) for turn in run.turns)) for run in whole.trajectories
        ),
    )
    found = await make("contrast", JudgeOptions()).propose(bare, ProposeLimits(max_mistakes=2))
    segments = [one.segment for one in found.proposals]
    places = {(segment.trajectory_id, segment.first_turn) for segment in segments if segment.trajectory_id != "won"}
    assert places == {("lost", 1), ("early", 0)}


@pytest.mark.parametrize("name", ["contrast", "random"])
async def test_mistakes_are_valid_segments_of_failed_runs_and_the_same_every_time(name: str) -> None:
    judge, limits = make(name, JudgeOptions()), ProposeLimits(max_proposals=2, max_mistakes=3, seed=5)
    whole = bell()
    found = await judge.propose(whole, limits)
    assert found == replace(await judge.propose(whole, limits), cost=found.cost)
    mistakes = [one for one in found.proposals if one.segment.trajectory_id != "t1"]
    assert 1 <= len(mistakes) <= 3
    assert list(found.proposals[-len(mistakes) :]) == mistakes
    for one in mistakes:
        assert segment_fault(one.segment, whole.trajectory(one.segment.trajectory_id)) is None


async def test_nobody_is_asked_for_mistakes_unless_credit_is_signed() -> None:
    found = await make("contrast", JudgeOptions()).propose(forked(), ProposeLimits(max_proposals=3))
    assert {proposal.segment.trajectory_id for proposal in found.proposals} == {"won"}


async def test_a_judge_that_knows_of_no_mistakes_says_so() -> None:
    judge = make("llm", JudgeOptions(endpoint=Endpoint(url="http://127.0.0.1:9/v1", model="m")))
    with pytest.raises(ValueError, match=r"was 'llm', asked for mistakes.*expected one of contrast, random"):
        await judge.propose(forked(), SIGNED)
