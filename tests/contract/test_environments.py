"""Every environment keeps every promise of `prover.environments.conformance`."""

from functools import partial

import pytest

from prover.environments.alfworld import AlfworldEnvironment
from prover.environments.alfworld.expert import plan
from prover.environments.alfworld.generate import TASK_TYPES, generate
from prover.environments.alfworld.stock import StockAlfworld
from prover.environments.chain import ChainEnvironment
from prover.environments.conformance import CHECKS, NotApplicable, Subject
from prover.trajectory import Task

_GAMES = tuple(f"generated/{task_type}/{seed}" for task_type in TASK_TYPES for seed in (1, 2))


def _solution(task_id: str) -> tuple[str, ...]:
    _, task_type, seed = task_id.split("/")
    return tuple(plan(generate(task_type, int(seed))))


def _alfworld(games: tuple[str, ...]) -> Subject:
    return Subject(
        make=AlfworldEnvironment,
        tasks=tuple(Task(environment="alfworld", task_id=game) for game in games),
        solutions={game: _solution(game) for game in games},
        limited=lambda max_turns: AlfworldEnvironment(max_turns=max_turns),
    )


def _stock() -> Subject:
    game = _GAMES[0]
    return Subject(
        make=StockAlfworld,
        tasks=(Task(environment="alfworld-stock", task_id=game),),
        solutions={game: _solution(game)},
        limited=lambda max_turns: StockAlfworld(max_turns=max_turns),
        length=4,
    )


def _chain() -> Subject:
    return Subject(
        make=ChainEnvironment,
        tasks=(Task(environment="chain", task_id="6/"), Task(environment="chain", task_id="9/2,4", seed=5)),
        solutions={"6/": ("open red door",) * 6},
        length=5,
    )


SUBJECTS = {"alfworld": partial(_alfworld, _GAMES), "chain": _chain}


@pytest.mark.parametrize("promise", CHECKS)
@pytest.mark.parametrize("name", SUBJECTS)
def test_an_environment_keeps_its_promises(name: str, promise: str) -> None:
    try:
        CHECKS[promise](SUBJECTS[name]())
    except NotApplicable as reason:
        pytest.skip(str(reason))


@pytest.mark.slow
@pytest.mark.parametrize("promise", CHECKS)
def test_the_stock_engine_keeps_its_promises_with_restore_by_replay(promise: str) -> None:
    pytest.importorskip("textworld", reason="the stock engine needs the extra 'stock'")
    CHECKS[promise](_stock())
