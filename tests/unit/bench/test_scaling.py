"""What the scaling benchmark makes of its measurements, and the engine and groups that it measures with."""

import asyncio
from collections.abc import AsyncIterator
from importlib.util import find_spec

import pytest

from bench.chain_groups import mixed_group
from bench.figures import efficiencies, percentile
from bench.scaling import headline_of
from bench.scaling_burst import Course, drain_of, intake_of
from bench.simulated_engine import VERSION, SimulatedEngine
from prover.cli_bench import BENCHMARKS
from prover.environments.chain import COMMANDS
from prover.policies import PolicyClient, Sampling


def test_efficiency_is_the_rate_beside_so_many_times_that_of_one_worker() -> None:
    assert efficiencies({1: 5.0, 2: 9.0, 8: 30.0}) == {1: 1.0, 2: 0.9, 8: 0.75}
    with pytest.raises(ValueError, match="expected a rate above 0 of one worker"):
        efficiencies({2: 9.0})


def test_a_percentile_is_one_of_the_values() -> None:
    values = [float(value) for value in range(1, 101)]
    assert [percentile(values, share) for share in (0.01, 0.5, 0.95, 1.0)] == [1.0, 50.0, 95.0, 100.0]
    assert percentile([3.0, 1.0], 0.5) == 1.0
    for values, share in (([], 0.5), ([1.0], 0.0), ([1.0], 1.1)):
        with pytest.raises(ValueError, match="percentile"):
            percentile(values, share)


def test_the_headline_has_efficiencies_by_continuations_and_by_turns_and_a_burst_for_each_number_of_coordinators() -> (
    None
):
    rows = [
        {"workers": 1, "continuations_per_s": 2.0, "turns_per_s": 10.0},
        {"workers": 4, "continuations_per_s": 7.2, "turns_per_s": 38.0},
        {"coordinators": 1, "workers": 8, "intake_per_s": 40.0, "ended_per_s": 9.0, "decision_age_p95_ms": 80.0},
    ]
    assert headline_of(rows) == {
        "efficiency_4": 0.9,
        "turn_efficiency_4": 0.95,
        "intake_per_s_1": 40.0,
        "ended_per_s_1": 9.0,
        "decision_age_p95_ms_1": 80.0,
    }


def test_a_burst_is_read_from_the_analyses_own_times() -> None:
    courses = [
        Course(
            taken=0.5 * place,
            verifying=0.5 * place + 1.0,
            last_outcome=50.0 + place,
            done=50.1 + place,
            continuations=4,
        )
        for place in range(20)
    ]
    assert intake_of(courses, processor_s=2.0) == {
        "intake_per_s": round(20 / 10.5, 2),
        "intake_cpu_ms_per_analysis": 100.0,
    }
    drain = drain_of(courses, processor_s=1.0)
    assert (drain["ended_per_s"], drain["continuations"], drain["decision_cpu_ms_per_analysis"]) == (1.0, 80, 50.0)
    assert drain["decision_age_max_ms"] == pytest.approx(100.0)


def test_groups_are_mixed_and_each_seed_has_its_own() -> None:
    groups = [mixed_group("4/1,2", size=8, seed=seed) for seed in range(20)]
    for group in groups:
        assert 0 < sum(member.success for member in group.trajectories) < 8
        assert all(len(member.turns) == 4 for member in group.trajectories)
    assert len({tuple(turn.action for member in group.trajectories for turn in member.turns) for group in groups}) > 10
    assert mixed_group("4/1,2", size=8, seed=3) == groups[3]


@pytest.fixture
async def simulated() -> AsyncIterator[tuple[str, SimulatedEngine]]:
    engine = SimulatedEngine(median_s=0.01, seed=0)
    async with await asyncio.start_server(engine.serve, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        yield f"http://{host}:{port}", engine


async def test_the_simulated_engine_answers_the_client_as_an_engine_does(
    simulated: tuple[str, SimulatedEngine],
) -> None:
    client = PolicyClient(simulated[0])
    try:
        prompt = await client.tokenize("Room 0.\n> ")
        assert prompt == tuple(map(ord, "Room 0.\n> "))
        asked = [client.complete(prompt, Sampling(max_tokens=32)) for _ in range(40)]
        answers = await asyncio.gather(*asked)
    finally:
        await client.aclose()
    assert {answer.text for answer in answers} == set(COMMANDS)
    for answer in answers:
        assert answer.policy_version == VERSION
        assert len(answer.token_ids) == len(answer.logprobs) == len(f"{answer.text}\n")


def test_every_benchmark_that_is_listed_is_there() -> None:
    for name in BENCHMARKS:
        assert find_spec(f"bench.{name.replace('-', '_')}") is not None, name
