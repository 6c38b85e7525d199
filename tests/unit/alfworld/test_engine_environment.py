"""The ALFWorld environment: task ids, options, forks across processes, digests."""

import json
import multiprocessing
import pickle
import random
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from alfworld_house import house

from prover.environments import make
from prover.environments.alfworld import AlfworldEnvironment
from prover.environments.alfworld.state import State, pack, unpack
from prover.trajectory import Task

_WIN = (
    "go to cabinet 1", "open cabinet 1", "take mug 1 from cabinet 1", "go to microwave 1", 
    "heat mug 1 with microwave 1", "go to cabinet 1", "move mug 1 to cabinet 1",
)  # fmt: skip
_HOUSE = "valid_seen/house/trial_1"


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    """A data folder with the house in it."""
    folder = tmp_path / "json_2.1.1" / _HOUSE
    folder.mkdir(parents=True)
    (folder / "game.tw-pddl").write_text(json.dumps(house()))
    yield tmp_path


def _task(task_id: str = _HOUSE, **options: object) -> Task:
    return Task(environment="alfworld", task_id=task_id, options=options)


def _play_on(data_dir: Path, snapshot: bytes, commands: tuple[str, ...]) -> tuple[list[str], str]:
    environment = AlfworldEnvironment(data_dir=data_dir)
    environment.restore(snapshot)
    return [environment.step(command).observation for command in commands], environment.digest()


def test_the_winning_step_is_paid_and_ends_the_episode(data_dir: Path) -> None:
    environment = make("alfworld", data_dir=data_dir)
    environment.reset(_task())
    steps = [environment.step(command) for command in _WIN]
    assert [step.reward for step in steps] == [0.0] * 6 + [1.0]
    assert [step.done for step in steps] == [step.success for step in steps] == [False] * 6 + [True]
    with pytest.raises(RuntimeError, match="the episode is done"):
        environment.step("look")


def test_a_command_that_does_nothing_is_not_valid(data_dir: Path) -> None:
    environment = AlfworldEnvironment(data_dir=data_dir)
    environment.reset(_task())
    step = environment.step("fly to cabinet 1")
    assert (step.observation, step.valid, step.reward, step.done) == ("Nothing happens.", False, 0.0, False)


def test_reaching_max_turns_is_done_and_no_success_unless_the_last_step_wins(data_dir: Path) -> None:
    environment = AlfworldEnvironment(data_dir=data_dir, max_turns=7)
    environment.reset(_task())
    assert [environment.step("look").done for _ in range(7)] == [False] * 6 + [True]
    environment.reset(_task())
    assert [environment.step(command).success for command in _WIN][-1]


def test_a_snapshot_is_continued_in_another_process(data_dir: Path) -> None:
    environment = AlfworldEnvironment(data_dir=data_dir)
    environment.reset(_task())
    for command in _WIN[:3]:
        environment.step(command)
    snapshot = environment.snapshot()
    here = ([environment.step(command).observation for command in _WIN[3:]], environment.digest())
    with ProcessPoolExecutor(max_workers=1, mp_context=multiprocessing.get_context("spawn")) as pool:
        there = pool.submit(_play_on, data_dir, snapshot, _WIN[3:]).result()
    assert there == here


def test_a_fork_leaves_its_origin_alone(data_dir: Path) -> None:
    environment = AlfworldEnvironment(data_dir=data_dir)
    environment.reset(_task())
    environment.step("go to cabinet 1")
    snapshot, digest, admissible = environment.snapshot(), environment.digest(), environment.admissible()
    for command in _WIN[1:]:
        environment.step(command)
    environment.restore(snapshot)
    assert (environment.digest(), environment.admissible()) == (digest, admissible)


def test_snapshots_of_a_game_whose_file_changed_are_refused(data_dir: Path) -> None:
    environment = AlfworldEnvironment(data_dir=data_dir)
    environment.reset(_task())
    snapshot = environment.snapshot()
    (data_dir / "json_2.1.1" / _HOUSE / "game.tw-pddl").write_text(json.dumps(house(task="do something else.")))
    with pytest.raises(ValueError, match="expected the same file, in the same release"):
        AlfworldEnvironment(data_dir=data_dir).restore(snapshot)


@pytest.mark.parametrize("snapshot", [b"", b"{}", b"[]\n0\n", b"\x80\x04.", b"[1]\nx\n", b"no\nsnapshot\nat all"])
def test_bytes_that_are_no_snapshot_are_refused(data_dir: Path, snapshot: bytes) -> None:
    with pytest.raises(ValueError, match=r"snapshot|state"):
        AlfworldEnvironment(data_dir=data_dir).restore(snapshot)


def test_a_digest_names_a_state_whatever_way_led_there(data_dir: Path) -> None:
    environment = AlfworldEnvironment(data_dir=data_dir)
    environment.reset(_task())
    start = environment.digest()
    environment.step("go to drawer 1")
    there = environment.digest()
    for command in ("look", "open drawer 1", "close drawer 1", "fly"):
        environment.step(command)
    assert environment.digest() == there != start


def test_a_digest_is_the_same_in_every_version(data_dir: Path) -> None:
    environment = AlfworldEnvironment(data_dir=data_dir)
    environment.reset(_task())
    assert environment.digest() == "current-215cf22bc903ae2db6f59c7f11854304"


def test_the_releases_of_a_game_have_different_digests_that_say_which(data_dir: Path) -> None:
    environment = AlfworldEnvironment(data_dir=data_dir)
    environment.reset(_task(release="2021"))
    assert environment.digest().startswith("2021-")
    environment.reset(_task())
    assert environment.digest().startswith("current-")


def test_a_state_survives_pickle_and_its_own_bytes() -> None:
    rng = random.Random(0)
    for _ in range(50):
        state = State(*(rng.getrandbits(rng.choice((0, 1, 8, 3000))) for _ in State._fields))
        assert unpack(pack(state)) == pickle.loads(pickle.dumps(state)) == state


@pytest.mark.parametrize(
    "task_id",
    [
        "nowhere",
        "../json_2.1.1/valid_seen/house/trial_1",
        "/etc",
        ".",
        "valid_seen/house",
        "valid_seen/../../x",
        "valid_seen/house/../house/trial_1",
        "valid_seen//house/trial_1",
        "a\0b",
        "x" * 300,
    ],
)
def test_a_task_id_outside_the_data_or_without_a_game_is_refused_by_name(data_dir: Path, task_id: str) -> None:
    with pytest.raises(ValueError, match=r"task\.task_id"):
        AlfworldEnvironment(data_dir=data_dir).reset(_task(task_id))


def test_a_split_may_be_a_link_to_another_disk(data_dir: Path) -> None:
    (data_dir / "json_2.1.1" / "train").symlink_to(data_dir / "json_2.1.1" / "valid_seen")
    AlfworldEnvironment(data_dir=data_dir).reset(_task("train/house/trial_1"))


@pytest.mark.parametrize("task_id", ["generated/pick", "generated/pick/x", "generated/pick/-1", "generated/pick/1"])
def test_a_generated_task_that_cannot_be_is_refused_by_name(task_id: str) -> None:
    with pytest.raises(ValueError, match=r"task\.task_id"):
        AlfworldEnvironment().reset(_task(task_id))


@pytest.mark.parametrize(
    "options",
    [{"release": "2020"}, {"release": 2021}, {"realease": "2021"}, {"difficulty": 3}, {"difficulty": {"hidden": 0.1}}],
)
def test_unknown_options_are_refused_by_name(data_dir: Path, options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"task\.options"):
        AlfworldEnvironment(data_dir=data_dir).reset(_task(**options))


def test_nothing_can_be_done_before_reset() -> None:
    environment = AlfworldEnvironment()
    for act in (environment.admissible, environment.snapshot, environment.digest, lambda: environment.step("look")):
        with pytest.raises(RuntimeError, match="reset"):
            act()


def test_a_broken_game_file_is_refused_by_its_task_id(data_dir: Path) -> None:
    (data_dir / "json_2.1.1" / _HOUSE / "game.tw-pddl").write_text('{"pddl_domain": 3}')
    with pytest.raises(ValueError, match=f"task.task_id: {_HOUSE}: pddl_domain: was int"):
        AlfworldEnvironment(data_dir=data_dir).reset(_task())
