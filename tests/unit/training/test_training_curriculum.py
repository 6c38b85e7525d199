"""Which tasks come next."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from prover.training.curriculum import Outcome, Record, choose, expected_signal, learn
from prover.training.experiment import Curriculum

POOL = [(f"{family}/{seed}", family) for seed in range(50) for family in ("never", "half", "always")]
KNOWN = {
    "never": Record(successes=0, trajectories=400),
    "half": Record(successes=200, trajectories=400),
    "always": Record(successes=400, trajectories=400),
}


def families(names: list[str]) -> Counter[str]:
    return Counter(name.partition("/")[0] for name in names)


def drawn_families(settings: Curriculum) -> Counter[str]:
    names = [name for seed in range(200) for name in choose(POOL, KNOWN, count=3, seed=str(seed), settings=settings)]
    return families(names)


def test_tasks_of_a_family_that_is_sometimes_solved_come_first() -> None:
    drawn = drawn_families(Curriculum())
    assert drawn["half"] > 1.5 * max(drawn["never"], drawn["always"])
    assert min(drawn.values()) > 0


def test_without_the_curriculum_families_are_drawn_evenly() -> None:
    drawn = drawn_families(Curriculum(by_success=False))
    assert max(drawn.values()) < 1.4 * min(drawn.values())


@given(st.integers(0, 200), st.text(max_size=5))
def test_a_task_is_never_drawn_twice_for_a_step(count: int, seed: str) -> None:
    drawn = choose(POOL, KNOWN, count=count, seed=seed, settings=Curriculum())
    assert len(set(drawn)) == len(drawn) == min(count, len(POOL))
    assert drawn == choose(POOL, KNOWN, count=count, seed=seed, settings=Curriculum())


@given(st.integers(0, 50), st.integers(0, 50))
def test_the_expected_signal_is_a_probability_of_at_most_a_quarter(successes: int, failures: int) -> None:
    record = Record(successes=successes, trajectories=successes + failures)
    assert 0 < expected_signal(record, Record()) < 0.25


def test_outcomes_count_for_the_task_and_for_its_family_and_old_ones_fade() -> None:
    names = dict(POOL)
    first = learn({}, [Outcome(task_id="half/0", successes=4, trajectories=8)], names, memory=0.5)
    second = learn(first, [Outcome(task_id="half/1", successes=0, trajectories=8)], names, memory=0.5)
    assert second["half/0"] == Record(successes=4, trajectories=8)
    assert second["half"] == Record(successes=2, trajectories=12)
