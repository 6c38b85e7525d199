"""What the policy is trained on, and the tokenizer that it reads with."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from prover.agents import Plain
from services.engine.config import SHIPPED_WEIGHTS
from services.engine.demonstrations import Recipe, demonstrate, encode

KIND = "pick_heat_then_place_in_recep"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """The shipped one."""
    return Tokenizer.from_file(str(SHIPPED_WEIGHTS / "tokenizer.json"))


def tokens(tokenizer: Tokenizer, text: str) -> list[str]:
    """The text of each token."""
    return [tokenizer.decode([token]) for token in tokenizer.encode(text, add_special_tokens=False).ids]


@given(text=st.text())
def test_every_text_comes_back_as_it_was(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_words_numbers_and_line_feeds_are_tokens(tokenizer: Tokenizer) -> None:
    assert tokens(tokenizer, " go to sidetable 12\n\n>") == [" go", " to", " sidetable", " 12", "\n", "\n", ">"]


def test_a_demonstration_is_a_transcript_of_the_plain_agent(tokenizer: Tokenizer) -> None:
    pieces = demonstrate(KIND, 3, Recipe(stray_share=0.0, wandering_share=0.0))
    agent = Plain()
    assert pieces[0].text == agent.opening(pieces[0].text.removesuffix("\n>"))
    commands = [agent.action(piece.text).command for piece in pieces[1::2]]
    assert any(command and command.startswith("heat ") for command in commands)
    assert all(piece.imitate == (index % 2 == 1) for index, piece in enumerate(pieces))
    whole = tokenizer.encode("".join(piece.text for piece in pieces), add_special_tokens=False).ids
    assert encode(pieces, tokenizer)[0] == whole


def test_a_demonstration_repeats() -> None:
    assert demonstrate(KIND, 5, Recipe()) == demonstrate(KIND, 5, Recipe())


def test_mistakes_are_read_and_not_imitated() -> None:
    recipe = Recipe(stray_share=0.5, mistake_share=1.0)
    games = [demonstrate(KIND, seed, recipe) for seed in range(5)]
    refused = [
        before.imitate
        for game in games
        for before, after in pairwise(game)
        if after.text.startswith("Nothing happens.")
    ]
    assert len(refused) > 10
    assert not any(refused)
