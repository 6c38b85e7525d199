"""The ragged forward pass against transformers' own."""

from pathlib import Path

import torch

from services.engine.transformer import Chunk, KeyValues, forward
from services.engine.weights import Weights
from tests.unit.engine.builders import weights


def reference(of: Weights, token_ids: list[int]) -> torch.Tensor:
    """transformers' logits after the last token."""
    with torch.inference_mode():
        return of.model(torch.tensor([token_ids])).logits[0, -1]


def test_a_pass_over_unequal_sequences_gives_what_transformers_gives(tmp_path: Path) -> None:
    of = weights(tmp_path)
    sequences = [[1, 2, 3, 4], [5], [6, 7, 8, 9, 10, 11, 1, 2, 3]]
    logits = forward(of.model, [Chunk(token_ids=ids, cache=KeyValues.of(of.model)) for ids in sequences])
    for row, ids in zip(logits, sequences, strict=True):
        torch.testing.assert_close(row, reference(of, ids), atol=1e-4, rtol=1e-4)


def test_pieces_give_what_the_whole_gives(tmp_path: Path) -> None:
    of = weights(tmp_path)
    cache, other = KeyValues.of(of.model), KeyValues.of(of.model)
    forward(of.model, [Chunk(token_ids=[1, 2, 3], cache=cache)])
    forward(of.model, [Chunk(token_ids=[4], cache=cache), Chunk(token_ids=[9, 9], cache=other)])
    logits = forward(of.model, [Chunk(token_ids=[3], cache=other), Chunk(token_ids=[5, 6, 7], cache=cache)])
    torch.testing.assert_close(logits[0], reference(of, [9, 9, 3]), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(logits[1], reference(of, [1, 2, 3, 4, 5, 6, 7]), atol=1e-4, rtol=1e-4)


def test_a_copied_prefix_goes_its_own_way(tmp_path: Path) -> None:
    of = weights(tmp_path)
    cache = KeyValues.of(of.model)
    forward(of.model, [Chunk(token_ids=[1, 2, 3, 4, 5], cache=cache)])
    copy = cache.prefix(3, room=8)
    both = forward(of.model, [Chunk(token_ids=[7], cache=copy), Chunk(token_ids=[8], cache=cache)])
    torch.testing.assert_close(both[0], reference(of, [1, 2, 3, 7]), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(both[1], reference(of, [1, 2, 3, 4, 5, 8]), atol=1e-4, rtol=1e-4)
    assert copy.token_ids.tolist() == [1, 2, 3, 7]


def test_a_sequence_outgrows_its_first_allocation(tmp_path: Path) -> None:
    of = weights(tmp_path)
    ids = [token % 12 for token in range(600)]
    cache = KeyValues.of(of.model)
    forward(of.model, [Chunk(token_ids=ids[:250], cache=cache)])
    before = cache.num_bytes
    forward(of.model, [Chunk(token_ids=ids[250:599], cache=cache)])
    logits = forward(of.model, [Chunk(token_ids=ids[599:], cache=cache)])
    assert cache.num_bytes > before
    torch.testing.assert_close(logits[0], reference(of, ids), atol=1e-3, rtol=1e-3)
