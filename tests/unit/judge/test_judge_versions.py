"""Every answer names the rule that made it, so that one record never holds the audits of two rules."""

from hashlib import sha256

from bench.judge_household import Household
from services.judge.contrast import Contrast, ContrastWeights
from services.judge.judge import JudgeOptions, ProposeLimits, make
from tests.unit.judge.builders import bell

KNOWN = {
    "contrast": ("2-b14aa7ea", "cb25758a"),
    "random": ("1", "10e36393"),
}
"""The version, and a hash of what that version proposes. Where the second changes the first has to change with it."""


async def test_a_judge_that_proposes_something_else_has_another_version() -> None:
    groups = [bell(), *(Household(seed).group()[0] for seed in (1000, 1011, 1012, 1020))]
    found: dict[str, tuple[str, str]] = {}
    for name in KNOWN:
        answers = [
            await make(name, JudgeOptions()).propose(group, ProposeLimits(max_proposals=3, seed=4)) for group in groups
        ]
        segments = [(one.segment.first_turn, one.segment.last_turn) for answer in answers for one in answer.proposals]
        (version,) = {answer.prompt_version for answer in answers}
        assert all(one.prompt_version == version for answer in answers for one in answer.proposals)
        found[name] = version, sha256(repr(segments).encode()).hexdigest()[:8]
    assert found == KNOWN


def test_other_constants_make_another_version() -> None:
    versions = {Contrast(weights=weights).version for weights in (ContrastWeights(), ContrastWeights(price=0.05))}
    assert len(versions) == 2
    assert Contrast(weights=ContrastWeights(price=0.04)).version == Contrast().version


async def test_the_oracle_names_its_share() -> None:
    oracle = make("oracle", JudgeOptions(values=lambda _: (0.1, 0.1, 0.1, 0.6, 0.6, 0.62, 1.0)))
    assert (await oracle.propose(bell(), ProposeLimits())).prompt_version == "share-0.9"
