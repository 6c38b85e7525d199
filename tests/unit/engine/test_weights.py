"""Folders of weights that are not what they should be."""

import json
from pathlib import Path

import pytest

from services.engine.weights import WeightsError, load_weights
from tests.unit.engine.builders import weights, write_weights


def test_a_folder_says_its_version(tmp_path: Path) -> None:
    loaded = weights(tmp_path, version="v7")
    assert (loaded.name, loaded.version, loaded.max_context) == ("tiny", "v7", 256)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json", "prover.json"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    write_weights(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(WeightsError, match=name):
        load_weights(tmp_path)


def test_a_manifest_without_a_version_is_refused(tmp_path: Path) -> None:
    write_weights(tmp_path)
    (tmp_path / "prover.json").write_text(json.dumps({"model": "tiny"}))
    with pytest.raises(WeightsError, match="version"):
        load_weights(tmp_path)


def test_new_weights_may_leave_the_tokenizer_out_but_not_change_it(tmp_path: Path) -> None:
    current = weights(tmp_path / "old").tokenizer
    folder = write_weights(tmp_path / "new", version="v1")
    (folder / "tokenizer.json").unlink()
    assert load_weights(folder, tokenizer=current).tokenizer is current
    changed = json.loads(current.to_str())
    changed["model"]["vocab"] = {word: 12 - index for word, index in changed["model"]["vocab"].items()}
    (folder / "tokenizer.json").write_text(json.dumps(changed))
    with pytest.raises(WeightsError, match="differs from the tokenizer in use"):
        load_weights(folder, tokenizer=current)


def test_weights_of_another_kind_of_model_are_refused(tmp_path: Path) -> None:
    write_weights(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"architectures": ["GPT2LMHeadModel"]}))
    with pytest.raises(WeightsError, match="GPT2LMHeadModel"):
        load_weights(tmp_path)
