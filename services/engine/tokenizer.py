"""The policy's tokenizer: a word is a token, a number is a token, a line feed is a token, and every text round-trips.

Names such as " mug 1" become " mug" and " 1", the same pieces wherever they stand, so that a policy can copy a name it
has never met in that place. What is no word of the environment falls back to bytes.
"""

from collections.abc import Iterable

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

_PIECES = r" ?[A-Za-z]+| ?[0-9]+|\n| ?[^A-Za-z0-9\n ]| "
_MOST_TOKENS = 4096

PADDING = "<pad>"


def train_tokenizer(texts: Iterable[str]) -> Tokenizer:
    """Learns every word of `texts`. Byte-level BPE, with enough merges that each of them is one token."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_MOST_TOKENS,
        min_frequency=1,
        show_progress=False,
        special_tokens=[AddedToken(PADDING, special=True)],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer
