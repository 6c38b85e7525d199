"""From credited trajectories to what a forward pass takes: sequences, and packs of them.

Turns whose context goes on where the turn before ended are one sequence, computed once. A context that does not (a
history that was cut, thinking that was stripped) begins a new sequence. Sequences are packed one after the other, with
positions of their own and attention that does not cross between them, so that nothing is padded.

Dimensions: S tokens of one sequence; T tokens of a pack; N sampled tokens of a pack.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prover.trajectory import CreditedTrajectory, Turn, TurnCredit

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingTurn:
    """All that training knows of a turn. Where the advantages came from is not part of it."""

    context_token_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    advantages: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSequence:
    """Tokens that are computed together.

    Attributes:
        token_ids_S: contexts and sampled tokens.
        sampled_N: places of the sampled tokens among them, ascending; never 0, since something is read first.
        logprobs_N: nats, of the sampled tokens under the policy that sampled them.
        advantages_N: of the sampled tokens.
        trajectory: number of the trajectory in its batch.
    """

    token_ids_S: Ints
    sampled_N: Ints
    logprobs_N: Floats
    advantages_N: Floats
    trajectory: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """Sequences one after the other. `sampled_N` counts within the pack; `weights_N` are the loss weights."""

    token_ids_T: Ints
    positions_T: Ints
    lengths: tuple[int, ...]
    sampled_N: Ints
    logprobs_N: Floats
    advantages_N: Floats
    weights_N: Floats


def read_turns(credited: CreditedTrajectory) -> list[TrainingTurn]:
    """The turns of a trajectory. Raises ValueError naming the turn that cannot be trained on."""
    trajectory = credited.trajectory
    return [
        read_turn(turn, credit, where=f"trajectory {trajectory.id!r}: turns[{index}]")
        for index, (turn, credit) in enumerate(zip(trajectory.turns, credited.credit.turns, strict=True))
    ]


def read_turn(turn: Turn, credit: TurnCredit, *, where: str) -> TrainingTurn:
    """One turn; `where` begins the messages. Raises ValueError naming the field."""
    context, tokens, logprobs = turn.context_token_ids, turn.token_ids, turn.logprobs
    if context is None or tokens is None or logprobs is None:
        missing = [
            name
            for name, value in (("context_token_ids", context), ("token_ids", tokens), ("logprobs", logprobs))
            if value is None
        ]
        raise ValueError(f"{where}.{missing[0]}: was absent; expected what the policy engine gave")
    if not context:
        raise ValueError(f"{where}.context_token_ids: was empty; expected what the policy read, one token at least")
    advantages = credit.token_advantages
    advantages = (credit.advantage,) * len(tokens) if advantages is None else advantages
    if len(advantages) != len(tokens):
        raise ValueError(f"{where}.token_advantages: {len(advantages)} for {len(tokens)} tokens; expected one for each")
    if not all(map(math.isfinite, (*advantages, *logprobs))):
        raise ValueError(f"{where}: advantages or logprobs: were not all finite; expected numbers")
    return TrainingTurn(context_token_ids=context, token_ids=tokens, logprobs=logprobs, advantages=advantages)


def merge_turns(turns: Sequence[TrainingTurn], *, trajectory: int) -> list[TrainingSequence]:
    """As few sequences as the contexts allow. Turns in which nothing was sampled are left out."""
    sequences: list[TrainingSequence] = []
    run: list[TrainingTurn] = []
    read_so_far: tuple[int, ...] = ()
    for turn in turns:
        if not turn.token_ids:
            continue
        if run and turn.context_token_ids[: len(read_so_far)] != read_so_far:
            sequences.append(_sequence(run, trajectory))
            run = []
        run.append(turn)
        read_so_far = (*turn.context_token_ids, *turn.token_ids)
    return [*sequences, _sequence(run, trajectory)] if run else sequences


def _sequence(run: Sequence[TrainingTurn], trajectory: int) -> TrainingSequence:
    """`run` is not empty, and each context begins with everything before it."""
    sampled = [
        np.arange(len(turn.context_token_ids), len(turn.context_token_ids) + len(turn.token_ids)) for turn in run
    ]
    return TrainingSequence(
        token_ids_S=np.array((*run[-1].context_token_ids, *run[-1].token_ids), dtype=np.int64),
        sampled_N=np.concatenate(sampled).astype(np.int64),
        logprobs_N=np.array([value for turn in run for value in turn.logprobs], dtype=np.float64),
        advantages_N=np.array([value for turn in run for value in turn.advantages], dtype=np.float64),
        trajectory=trajectory,
    )


def loss_weights(sequences: Sequence[TrainingSequence], *, normalisation: str) -> list[Floats]:
    """The weight of each sampled token in the loss of the whole batch, for each sequence; they sum to 1.

    "token": 1 / (sampled tokens of the batch). "sequence": each trajectory weighs the same, and within it each token.
    """
    tokens: dict[int, int] = {}
    for sequence in sequences:
        tokens[sequence.trajectory] = tokens.get(sequence.trajectory, 0) + len(sequence.sampled_N)
    total = sum(tokens.values())
    return [
        np.full(
            len(sequence.sampled_N),
            1 / total if normalisation == "token" else 1 / (len(tokens) * tokens[sequence.trajectory]),
        )
        for sequence in sequences
    ]


def share(lengths: Sequence[int], *, ranks: int) -> list[list[int]]:
    """Which sequences each rank computes: the longest first, each for the rank with the fewest tokens so far.

    >>> share([5, 9, 4], ranks=2)
    [[1], [0, 2]]
    """
    shares: list[list[int]] = [[] for _ in range(ranks)]
    tokens = [0] * ranks
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        rank = tokens.index(min(tokens))
        shares[rank].append(index)
        tokens[rank] += lengths[index]
    return [sorted(mine) for mine in shares]


def pack(sequences: Sequence[TrainingSequence], weights: Sequence[Floats], *, max_tokens: int) -> list[Pack]:
    """Few packs of at most `max_tokens`: the longest sequence first, each into the first pack that has room.

    A sequence that is longer than that gets a pack to itself. What is computed does not depend on the packing.
    """
    bins: list[list[int]] = []
    room: list[int] = []
    lengths = [len(sequence.token_ids_S) for sequence in sequences]
    for index in sorted(range(len(sequences)), key=lambda index: -lengths[index]):
        place = next((place for place, left in enumerate(room) if lengths[index] <= left), None)
        if place is None:
            bins.append([index])
            room.append(max_tokens - lengths[index])
        else:
            bins[place].append(index)
            room[place] -= lengths[index]
    return [_pack([sequences[index] for index in members], [weights[index] for index in members]) for members in bins]


def _pack(sequences: Sequence[TrainingSequence], weights: Sequence[Floats]) -> Pack:
    lengths = tuple(len(sequence.token_ids_S) for sequence in sequences)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    return Pack(
        token_ids_T=np.concatenate([sequence.token_ids_S for sequence in sequences]),
        positions_T=np.concatenate([np.arange(length) for length in lengths]),
        lengths=lengths,
        sampled_N=np.concatenate(
            [sequence.sampled_N + start for sequence, start in zip(sequences, starts, strict=True)]
        ),
        logprobs_N=np.concatenate([sequence.logprobs_N for sequence in sequences]),
        advantages_N=np.concatenate([sequence.advantages_N for sequence in sequences]),
        weights_N=np.concatenate(weights),
    )
