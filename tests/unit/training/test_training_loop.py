"""What a run does, step by step, with services that behave and no process of its own."""

import asyncio
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from prover.training.crediting import credit_groups, options_of
from prover.training.evaluation import evaluate
from prover.training.loop import Trainer
from prover.training.publishing import NotPublished
from prover.training.records import wilson
from prover.training.runs import Run, RunRefused, State, list_runs, open_run
from prover.training.sampling import SamplingFailed, has_signal, sample_batch
from services.gateway.models import OptionsIn
from tests.unit.training.fakes import Killed, Watcher, World, experiment, group

CONFIG = """
name = "tiny"
steps = {steps}
max_lag = {lag}
[tasks]
environment = "corridor"
train = ["easy/{{seed}}", "hard/{{seed}}"]
test = ["easy/{{seed}}"]
[rollouts]
groups = 3
max_groups = 8
concurrent = 2
[evaluation]
every = 2
tasks = 20
"""


def silent(done: int, total: int) -> None: ...


def opened(folder: Path, changed: dict[str, Any]) -> AbstractContextManager[Run]:
    config = folder.with_suffix(".toml")
    config.write_text(CONFIG.format(steps=changed.get("steps", 3), lag=changed.get("max_lag", 0)))
    return open_run(folder, config, experiment(**changed))


async def train(folder: Path, world: World, **changed: Any) -> tuple[State, Watcher]:
    watcher = Watcher()
    with opened(folder, changed) as run:
        trainer = Trainer(experiment(**changed), run, world.services(), [watcher], publish_pauses_s=(0.0, 0.0, 0.0))
        return await trainer.train(), watcher


async def test_a_run_samples_credits_trains_publishes_and_evaluates(tmp_path: Path) -> None:
    world = World()
    state, watcher = await train(tmp_path / "run", world)
    assert (state.status, state.step, state.learner_step, world.served) == ("finished", 3, 3, 3)
    assert [record.sampled_from for record in watcher.records] == ["v0", "v1", "v2"]
    assert [record.published for record in watcher.records] == ["v1", "v2", "v3"]
    assert [each.step for each in watcher.evaluations] == [0, 2, 3]
    assert [each.policy_version for each in watcher.evaluations] == ["v0", "v2", "v3"]
    first = watcher.records[0]
    assert set(first.phases) == {"rollout", "judge", "verification", "training", "publishing"}
    assert first.phases["rollout"].tokens == first.groups.sampled * 8 * 2
    assert first.phases["verification"].tokens == 40 * len(world.submitted[: first.verified.verified])
    assert Run(tmp_path / "run").records() == watcher.records
    assert Run(tmp_path / "run").evaluations() == watcher.evaluations


async def test_one_step_off_policy_samples_ahead_and_trains_one_publish_late(tmp_path: Path) -> None:
    world = World()
    _, watcher = await train(tmp_path / "run", world, max_lag=1, steps=4)
    assert [record.lag for record in watcher.records] == [0, 1, 1, 1]
    assert [record.sampled_from for record in watcher.records] == ["v0", "v0", "v1", "v2"]
    assert {options["allowed_lag"] for _, options in world.submitted} == {1}


@pytest.mark.parametrize("lag", [0, 1])
@pytest.mark.parametrize("place", ["before step 2", "after step 2", "before publish 2", "after publish 2"])
async def test_a_run_that_is_killed_anywhere_goes_on_and_takes_every_step_once(
    tmp_path: Path, place: str, lag: int
) -> None:
    world = World(kill_at=place)
    with pytest.raises(Killed):
        await train(tmp_path / "run", world, max_lag=lag)
    state, _ = await train(tmp_path / "run", world, max_lag=lag)
    records = Run(tmp_path / "run").records()
    assert (state.step, state.learner_step, world.steps, world.served) == (3, 3, 3, 3)
    assert [record.step for record in records] == [1, 2, 3]
    assert [record.learner_step for record in records] == [1, 2, 3]
    assert [record.recovered for record in records] == [False, place != "before step 2", False]
    assert [each.step for each in Run(tmp_path / "run").evaluations()] == [0, 2, 3]


@pytest.mark.parametrize("place", ["before step 2", "after step 2", "before publish 2", "after publish 2"])
async def test_a_run_that_is_killed_anywhere_draws_the_tasks_of_one_that_never_was(tmp_path: Path, place: str) -> None:
    steady, stopped = World(), World(kill_at=place)
    await train(tmp_path / "steady", steady)
    with pytest.raises(Killed):
        await train(tmp_path / "stopped", stopped)
    await train(tmp_path / "stopped", stopped)
    one, other = Run(tmp_path / "steady"), Run(tmp_path / "stopped")
    assert [record.outcomes for record in other.records()] == [record.outcomes for record in one.records()]
    assert one.state is not None and other.state is not None
    assert other.state.records == one.state.records


async def test_a_publish_that_fails_for_a_moment_is_tried_again(tmp_path: Path) -> None:
    world = World(failing_publishes=3)
    state, watcher = await train(tmp_path / "run", world)
    assert (state.status, world.steps, world.served) == ("finished", 3, 3)
    assert [record.published for record in watcher.records] == ["v1", "v2", "v3"]
    assert world.log.count("before publish 1") == 4


@pytest.mark.parametrize("lag", [0, 1])
async def test_an_engine_that_refuses_for_ever_stops_the_run_which_goes_on_later(tmp_path: Path, lag: int) -> None:
    world = World(failing_publishes=1000)
    with pytest.raises(NotPublished, match=r"in 4 tries; the last: .*ConnectError.*go on with the same command"):
        await train(tmp_path / "run", world, max_lag=lag)
    assert (world.steps, world.served) == (1, 0)
    assert world.log.count("before publish 1") == 4
    world.failing_publishes = 0
    state, _ = await train(tmp_path / "run", world, max_lag=lag)
    assert (state.step, world.steps, world.served) == (3, 3, 3)
    assert [record.recovered for record in Run(tmp_path / "run").records()] == [True, False, False]


async def test_lines_beyond_the_state_and_torn_ones_are_taken_back(tmp_path: Path) -> None:
    world = World()
    await train(tmp_path / "run", world, steps=1)
    run = Run(tmp_path / "run")
    state = run.state
    assert state is not None
    run.add(run.records()[0].__class__(**{**_fields(run.records()[0]), "step": 2}))
    with (tmp_path / "run" / "records.jsonl").open("ab") as file:
        file.write(b'{"step": 3, "cut sho')
    await train(tmp_path / "run", world, steps=2)
    assert [record.step for record in run.records()] == [1, 2]


def _fields(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__dataclass_fields__}


async def test_another_experiment_does_not_go_on_in_the_same_folder_but_more_steps_do(tmp_path: Path) -> None:
    world = World()
    await train(tmp_path / "run", world, steps=1)
    with pytest.raises(RunRefused, match=r"another experiment \(max_lag differ\)"):
        (tmp_path / "run.toml").write_text(CONFIG.format(steps=1, lag=1))
        with open_run(tmp_path / "run", tmp_path / "run.toml", experiment(max_lag=1)):
            pass
    state, _ = await train(tmp_path / "run", world, steps=2)
    assert state.step == 2


def test_two_processes_are_never_at_one_run(tmp_path: Path) -> None:
    with (
        opened(tmp_path / "run", {}),
        pytest.raises(RunRefused, match="another process is at this run"),
        opened(tmp_path / "run", {}),
    ):
        pass


async def test_a_learner_that_something_else_trains_is_refused(tmp_path: Path) -> None:
    world = World()
    await train(tmp_path / "run", world, steps=1)
    world.steps = 7
    with pytest.raises(RunRefused, match="taken 7 steps, the run knows of 1"):
        await train(tmp_path / "run", world, steps=2)


async def test_runs_are_listed_with_status_step_and_success(tmp_path: Path) -> None:
    world = World()
    await train(tmp_path / "done", world, steps=2)
    with pytest.raises(Killed):
        await train(tmp_path / "killed", World(kill_at="before step 2"))
    with opened(tmp_path / "now", {}):
        done, killed, now = list_runs(tmp_path)
    assert (done.status, done.step, killed.status, killed.step, now.status) == ("finished", 2, "stopped", 1, "running")
    assert done.success is not None and done.success.step == 2


async def test_groups_without_a_signal_are_passed_over_and_counted() -> None:
    tried = experiment(tasks={"train": ["solved/{seed}", "easy/{seed}"]})
    names = ["solved/0", "solved/1", "easy/0", "solved/2", "easy/1", "easy/2", "easy/3", "easy/4"]
    world = World()
    batch = await sample_batch(world.services().rollouts, names, tried, step=1, learner_step=0, progress=silent)
    useful = sum(has_signal(each, tried.credit) for each in batch.groups)
    assert useful >= 3 and len(batch.groups) > useful
    assert world.most_sampling <= 2


async def test_a_group_that_fails_is_counted_and_its_siblings_go_on() -> None:
    names = ["broken/0", "easy/0", "easy/1", "easy/2"]
    rollouts = World().services().rollouts
    batch = await sample_batch(rollouts, names, experiment(), step=1, learner_step=0, progress=silent)
    assert batch.failed == 1 and len(batch.groups) == 3
    with pytest.raises(SamplingFailed, match=r"all 1 groups of the step failed; the first: .*all 8 attempts failed"):
        await sample_batch(rollouts, ["broken/0"], experiment(), step=1, learner_step=0, progress=silent)


async def test_only_eligible_groups_are_submitted_and_the_others_keep_plain_advantages() -> None:
    world = World()
    credited = await credit_groups(
        world.services().gateway, [group(2), group(6), group(8)], experiment(), progress=silent
    )
    assert [sum(each.success for each in one.trajectories) for one, _ in world.submitted] == [2]
    assert (credited.groups, len(credited.batch)) == (2, 16)
    paid = [each.credit.turns[0].advantage for each in credited.batch]
    assert paid[0] == pytest.approx(0.75 + 0.5) and paid[1] == pytest.approx(0.75) and paid[8] == pytest.approx(0.25)
    assert (credited.verified.accepted, credited.verified.bonus_mean) == (1, 0.5)


async def test_a_training_can_ask_for_what_an_analysis_can_be_asked_for() -> None:
    plain, defaults = OptionsIn.model_validate(options_of(experiment(credit={"mode": "adaptive"}))), OptionsIn()
    assert (plain.proposals, plain.credit, plain.budget) == (defaults.proposals, defaults.credit, defaults.budget)
    credit = {"mode": "adaptive", "proposals": 3, "credit": "signed", "budget": 24, "samples": 4, "weight": 2.0}
    asked = OptionsIn.model_validate(options_of(experiment(credit=credit)))
    assert (asked.mode, asked.proposals, asked.credit, asked.budget) == ("adaptive", 3, "signed", 24)
    assert (asked.samples, asked.weight) == (4, 2.0)
    assert "audited_share" not in options_of(experiment())  # an older gateway would refuse the name
    assert OptionsIn.model_validate(options_of(experiment(credit={"audited_share": 0.1}))).audited_share == 0.1


async def test_every_verified_segment_of_a_group_is_counted() -> None:
    world = World(bonuses=(0.5, 0.0, -0.25))
    settings = experiment(credit={"mode": "adaptive", "proposals": 2, "credit": "signed"})
    verified = (await credit_groups(world.services().gateway, [group(2)], settings, progress=silent)).verified
    assert (verified.verified, verified.accepted, verified.bonus_mean) == (3, 2, pytest.approx(0.25 / 3))


async def test_continuations_are_trained_on_where_asked_and_counted_apart() -> None:
    world = World()
    settings = experiment(credit={"train_continuations": True, "samples": 2})
    credited = await credit_groups(world.services().gateway, [group(2)], settings, progress=silent)
    assert world.submitted[0][1]["keep_continuations"] is True
    assert [each.credit.group_advantage for each in credited.batch[8:]] == [0.5, -0.5]  # one alone teaches nothing
    assert (credited.verified.trained_continuations, credited.verified.trained_tokens) == (2, 4)


@pytest.mark.parametrize(("stale", "groups"), [("plain", 1), ("drop", 0)])
async def test_a_stale_group_keeps_plain_credit_or_is_dropped(stale: str, groups: int) -> None:
    world = World(status="stale")
    credited = await credit_groups(
        world.services().gateway, [group(2)], experiment(credit={"stale": stale}), progress=silent
    )
    assert (credited.groups, credited.dropped, len(credited.batch)) == (groups, 1 - groups, 8 * groups)
    assert all(turn.advantage == each.credit.group_advantage for each in credited.batch for turn in each.credit.turns)


async def test_an_analysis_that_takes_too_long_is_cancelled_and_its_group_keeps_plain_credit() -> None:
    world = World(status="slow")
    credited = await credit_groups(world.services().gateway, [group(2)], experiment(), progress=silent)
    assert world.log == ["cancel 0"] and credited.groups == 1
    assert credited.verified.statuses == {"timed_out": 1}


async def test_a_refused_turn_pays_the_penalty_where_there_is_one() -> None:
    settings = experiment(credit={"method": "grpo", "invalid_penalty": 0.125})
    credited = await credit_groups(
        World().services().gateway, [group(4), group(0), group(8)], settings, progress=silent
    )
    assert credited.groups == 2  # all lost, and yet some turns teach something
    lost = credited.batch[7]
    assert [turn.advantage for turn in lost.credit.turns] == [-0.5, -0.625]
    assert lost.credit.turns[1].token_advantages == (-0.625,)


async def test_evaluations_of_one_policy_are_alike_and_carry_an_interval() -> None:
    rollouts = World().services().rollouts
    one = await evaluate(rollouts, experiment(), step=0, progress=silent)
    other = await evaluate(rollouts, experiment(), step=0, progress=silent)
    assert (one.successes, one.trajectories) == (other.successes, 20)
    low, high = one.interval
    assert low < one.success < high


def test_wilsons_interval_stays_inside_zero_and_one() -> None:
    assert wilson(0, 5)[0] == 0.0 and wilson(5, 5)[1] == 1.0
    with pytest.raises(ValueError, match="was 0 of 0"):
        wilson(0, 0)


async def test_a_run_that_is_cancelled_stops_sampling_ahead(tmp_path: Path) -> None:
    world = World()
    task = asyncio.create_task(train(tmp_path / "run", world, max_lag=1, steps=50))
    while not world.batches:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert world.sampling == 0
