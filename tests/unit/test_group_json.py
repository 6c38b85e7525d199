"""A group goes out as JSON and comes in as the same group."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from prover.analysis import Options
from prover.client import group_to_json, options_to_json
from prover.credit.modes import MODES
from prover.trajectory import Ending, Group, Task, Trajectory, Turn
from services.gateway.models import Submission

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NAME = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
TOKENS = st.lists(st.integers(0, 2**31 - 1), max_size=4).map(tuple)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def turns(draw: st.DrawFn) -> Turn:
    token_ids = draw(st.none() | TOKENS)
    logprobs = None
    if token_ids is not None and draw(st.booleans()):
        logprobs = tuple(draw(NUMBER) for _ in token_ids)
    return Turn(
        observation=draw(TEXT),
        text=draw(TEXT),
        action=draw(st.none() | TEXT),
        valid=draw(st.booleans()),
        reward=draw(NUMBER),
        context_token_ids=draw(st.none() | TOKENS),
        token_ids=token_ids,
        logprobs=logprobs,
        digest=draw(st.none() | TEXT),
    )


@st.composite
def groups(draw: st.DrawFn) -> Group:
    task = Task(
        environment=draw(NAME),
        task_id=draw(NAME),
        seed=draw(st.integers(-(2**63), 2**63 - 1)),
        options=draw(st.dictionaries(TEXT, JSON, max_size=3)),
    )
    version = draw(NAME)
    names = draw(st.lists(NAME, min_size=1, max_size=3, unique=True))
    trajectories: list[Trajectory] = []
    for name in names:
        ending = draw(st.sampled_from(Ending))
        success = ending in (Ending.FINISHED, Ending.UNKNOWN) and draw(st.booleans())
        members = draw(st.lists(turns(), min_size=1, max_size=3))
        trajectories.append(
            Trajectory(
                id=name,
                task=task,
                policy_version=version,
                turns=tuple(members),
                reward=draw(NUMBER),
                success=success,
                ending=ending,
            )
        )
    return Group(task=task, policy_version=version, trajectories=tuple(trajectories))


@given(groups())
@settings(max_examples=150, deadline=None)
def test_a_group_comes_in_as_it_went_out(group: Group) -> None:
    body = json.dumps({"group": group_to_json(group)}, allow_nan=False)
    read = Submission.model_validate_json(body).group
    assert read.to_noun(read.policy_version or "") == group


@given(
    st.builds(
        Options,
        mode=st.sampled_from(sorted(MODES)),
        samples=st.integers(1, 1024),
        weight=st.floats(0, 1000),
        max_turns=st.integers(1, 10_000),
        fidelity=st.sampled_from(["exact", "contains"]),
        temperature=st.floats(0, 100),
        top_p=st.floats(0, 1, exclude_min=True),
        max_tokens=st.integers(1, 100_000),
        normalise_std=st.booleans(),
        allowed_lag=st.integers(0, 1_000_000),
        reward_range=st.tuples(NUMBER, NUMBER),
        keep_continuations=st.booleans(),
        proposals=st.integers(1, 8),
        credit=st.sampled_from(["positive", "signed"]),
        budget=st.none() | st.integers(4, 1000),
        audited_share=st.just(0.25) | st.floats(0, 1, exclude_min=True),
    )
)
@settings(max_examples=100, deadline=None)
def test_options_come_in_as_they_went_out(options: Options) -> None:
    group = {"task": {"environment": "e", "task_id": "t"}, "trajectories": [_smallest()]}
    body = json.dumps({"group": group, "options": options_to_json(options)}, allow_nan=False)
    read = Submission.model_validate_json(body).options
    assert read.to_noun(policy=read.policy or "", reward_range=read.reward_range) == options


def _smallest() -> dict[str, object]:
    return {"id": "t", "reward": 0, "success": False, "turns": [{"observation": "", "text": ""}]}
