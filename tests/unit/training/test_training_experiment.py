"""What an experiment's file may say."""

import tomllib
from pathlib import Path

import pytest
from pydantic import BaseModel
from typer.testing import CliRunner

from prover.cli import app
from prover.credit.modes import MODES
from prover.training.experiment import Experiment, learner_toml, read_experiment
from prover.training.learner_experiment import LearnerExperiment, read_learner_experiment
from tests.unit.training.fakes import experiment

SHIPPED = sorted((Path(__file__).parents[3] / "configs").glob("*.toml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_experiment_can_be_read_by_loop_and_learner(path: Path) -> None:
    shipped = read_experiment(path)
    assert shipped.name == path.stem
    assert shipped.credit.mode in MODES
    LearnerExperiment.model_validate(tomllib.loads(learner_toml(shipped.learner)))


@pytest.mark.parametrize(
    "path", [path for path in SHIPPED if "[learner]" in path.read_text()], ids=lambda path: path.stem
)
def test_a_wrong_knob_of_the_learner_stops_a_run_before_anything_starts(path: Path, tmp_path: Path) -> None:
    wrong = tmp_path / path.name
    wrong.write_text(path.read_text().replace("learning_rate", "learning_rat"))
    arguments = ["train", str(wrong), "--runs-dir", str(tmp_path / "runs")]
    answer = CliRunner().invoke(app, arguments)
    assert answer.exit_code == 1
    assert f"{wrong}: " in answer.stderr
    assert "learner.learning_rat: the learner has no such knob; expected some of learning_rate, " in answer.stderr
    assert not (tmp_path / "runs").exists()


def test_a_knob_of_the_wrong_kind_is_named_with_what_was_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"learner\.learning_rate: was 'fast'; Input should be a valid number"):
        experiment(learner={"learning_rate": "fast"})
    path = tmp_path / "learner.toml"
    path.write_text("clip_low = 2\n")
    with pytest.raises(ValueError, match=r"learner\.toml: learner\.clip_low: was 2; Input should be less than 1"):
        read_learner_experiment(path)


def test_there_is_a_shipped_experiment() -> None:
    assert "train-demo" in {path.stem for path in SHIPPED}


def test_an_unknown_key_is_refused_by_its_name_and_file(tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text('name = "x"\nsteps = 1\n[tasks]\ntrain = ["a"]\ntest = ["b"]\n[rollouts]\ngroup_sise = 8\n')
    with pytest.raises(ValueError, match=r"wrong\.toml(.|\n)*rollouts\.group_sise"):
        read_experiment(path)


def test_a_task_that_is_trained_on_is_not_held_out() -> None:
    with pytest.raises(ValueError, match=r"'easy/3' is in tasks\.train too"):
        experiment(tasks={"test": ["easy/{seed}"], "test_seeds": [3, 4]})


def test_task_families_take_turns() -> None:
    assert [name for name, _ in experiment().tasks.train_ids()][:3] == ["easy/0", "hard/0", "easy/1"]


def test_fewer_tries_than_groups_are_refused() -> None:
    with pytest.raises(ValueError, match=r"max_groups: was 2; expected at least groups, 3"):
        experiment(rollouts={"max_groups": 2})


def test_a_remote_learner_has_knobs_of_its_own() -> None:
    with pytest.raises(ValueError, match="learner: was given with services = 'remote'"):
        experiment(services="remote", learner={"learning_rate": 0.1})


@pytest.mark.parametrize(
    "credit", [{}, {"samples": 1, "mode": "adaptive"}, {"mode": "frugal"}, {"mode": "own", "samples": 1}]
)
def test_continuations_without_siblings_are_not_trained_on_in_silence(credit: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"credit\.samples: was .*; expected samples of at least 2 and a mode that"):
        experiment(credit={"train_continuations": True, **credit})


@pytest.mark.parametrize("credit", [{"samples": 2}, {"mode": "fixed"}, {"mode": "adaptive"}, {"mode": "own"}])
def test_continuations_that_have_siblings_may_be_trained_on(credit: dict[str, object]) -> None:
    assert experiment(credit={"train_continuations": True, **credit}).credit.train_continuations


def test_plain_credit_has_no_continuations_to_train_on() -> None:
    with pytest.raises(ValueError, match="method 'grpo', which plays none"):
        experiment(credit={"train_continuations": True, "method": "grpo"})


@pytest.mark.parametrize("credit", [{"proposals": 2}, {"credit": "signed"}])
def test_a_judges_record_pays_for_one_proposal_of_a_success(credit: dict[str, object]) -> None:
    with pytest.raises(
        ValueError, match=r"credit\.mode: was 'audited' with proposals \d and credit '\w+'; expected one"
    ):
        experiment(credit=credit)


def test_a_budget_is_for_the_mode_that_divides_it() -> None:
    with pytest.raises(ValueError, match=r"credit\.budget: was 12 in mode 'fixed'; expected mode 'adaptive'"):
        experiment(credit={"mode": "fixed", "budget": 12})


def test_a_share_is_for_the_mode_that_audits_one() -> None:
    with pytest.raises(ValueError, match=r"credit\.audited_share: was 0\.5 in mode 'fixed'; expected mode 'audited'"):
        experiment(credit={"mode": "fixed", "audited_share": 0.5})
    with pytest.raises(ValueError, match="audited_share"):
        experiment(credit={"audited_share": 0})


def test_the_frugal_mode_plays_one_pair() -> None:
    with pytest.raises(ValueError, match=r"credit\.samples: was 8 in mode 'frugal'; expected 1 or left out"):
        experiment(credit={"mode": "frugal", "samples": 8})
    assert experiment(credit={"mode": "frugal", "samples": 1}).credit.samples == 1


def test_an_experiment_has_at_most_forty_five_knobs() -> None:
    def knobs(model: type[BaseModel]) -> int:
        kinds = [field.annotation for field in model.model_fields.values()]
        return sum(knobs(kind) if isinstance(kind, type) and issubclass(kind, BaseModel) else 1 for kind in kinds)

    assert knobs(Experiment) <= 45
