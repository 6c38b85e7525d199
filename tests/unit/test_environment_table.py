"""Environments of other packages are found by their entry points."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from prover.environments import known, make

METADATA = "Metadata-Version: 2.1\nName: rooms\nVersion: 1.0\n"
ENTRY = "[prover.environments]\nrooms = rooms_of_mine:Rooms\nchain = rooms_of_mine:Rooms\n"
MODULE = "class Rooms:\n    deterministic = True\n    can_snapshot = False\n"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = tmp_path / "rooms-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(METADATA)
    (folder / "entry_points.txt").write_text(ENTRY)
    (tmp_path / "rooms_of_mine.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("rooms_of_mine", None)


@pytest.mark.usefixtures("installed")
def test_an_installed_package_brings_its_environment() -> None:
    assert type(make("rooms")).__name__ == "Rooms"


@pytest.mark.usefixtures("installed")
def test_an_installed_package_cannot_take_one_of_our_names() -> None:
    assert known()["chain"].startswith("prover.")


def test_an_unknown_environment_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"environment: was 'atari'; expected one of alfworld, .*chain"):
        make("atari")
