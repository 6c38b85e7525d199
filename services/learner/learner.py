"""The learner: one optimizer step for one batch of credited trajectories.

It does not know where advantages came from. A step either happens as a whole and is saved, or changes nothing: a batch
without a signal (every advantage 0, no reference to hold to) is measured and otherwise left alone, since momentum or
weight decay would move the weights for no reason; a gradient that is not finite is thrown away.
Not for many threads: whoever owns a learner calls it from one.
"""

import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from prover.training import LearnerState, StepMetrics
from prover.training.learner_experiment import LearnerExperiment
from prover.trajectory import CreditedTrajectory, Turn, TurnCredit
from services.learner.adapters import add_adapters, merge_adapters, write_adapter
from services.learner.batches import (
    Floats,
    Pack,
    TrainingSequence,
    TrainingTurn,
    loss_weights,
    merge_turns,
    pack,
    read_turn,
    read_turns,
    share,
)
from services.learner.checkpoint import (
    Checkpoints,
    Progress,
    Publication,
    read_progress,
    read_trainable,
    read_trainer,
)
from services.learner.folders import mend, remove_oldest
from services.learner.model import load_model, may_pack
from services.learner.optimizer import Optimizer
from services.learner.passes import DTYPES, Passes, Sums
from services.learner.ranks import Ranks, alone
from services.learner.weights import read_manifest, version_after, write_weights

_log = logging.getLogger(__name__)


class StepRefused(Exception):
    """The step was not taken and nothing was changed. Says why."""


class Learner:
    """Trains the weights of a folder. `output` gets checkpoints and versions; training goes on from what is there."""

    def __init__(self, weights: Path, output: Path, experiment: LearnerExperiment, ranks: Ranks | None = None) -> None:
        """Raises ValueError where the folder holds no weights, or the output's checkpoint is of other ones. `ranks`:
        where several processes train together, each makes the same calls on a learner of its own."""
        torch.manual_seed(experiment.seed)
        self._weights = weights
        self._versions = output / "versions"
        self._experiment = experiment
        self._ranks = ranks or alone()
        self._model = self._ranks.shard(_prepare(weights, experiment))
        reference = self._ranks.shard(_reference(weights)) if experiment.kl_weight else None
        self._held = reference is not None
        self._passes = Passes(self._model, reference, experiment, self._ranks)
        self._optimizer = Optimizer(self._model, experiment)
        self._checkpoints = Checkpoints(output / "checkpoints")
        self._ranks.first(self._checkpoints.prepare)
        self._ranks.first(lambda: mend(self._versions))
        start = str(read_manifest(weights)["version"])
        self._progress = Progress(step=0, start_version=start, last=None)
        self._published = self._checkpoints.published(Publication(version="", path=str(weights.resolve())))
        self._unsaved = False
        self._resume()

    @property
    def state(self) -> LearnerState:
        """How far training has come."""
        version = version_after(self._progress.start_version, self._progress.step)
        return LearnerState(step=self._progress.step, version=version, published=self._published.version)

    @property
    def published_path(self) -> str:
        """The folder that was published last, or the one that training started from."""
        return self._published.path

    def step(self, batch: Sequence[CreditedTrajectory], *, after_step: int | None = None) -> StepMetrics:
        """One optimizer step on all of the batch, then a checkpoint.

        `after_step` makes a repeated call harmless: where the step after it was the last one taken, its metrics are
        answered again and nothing is done; where it does not fit at all, the step is refused.

        Raises ValueError for a batch that cannot be trained on, StepRefused, and WriteFailed where the step was taken
        and could not be saved (the same call again then saves it).
        """
        repeated = self._repeated(after_step)
        if repeated is not None:
            return repeated
        begun = time.monotonic()
        sequences = self._sequences(batch)
        signal = self._held or any(sequence.advantages_N.any() for sequence in sequences)
        sums = self._accumulate(self._packs(sequences), signal=signal)
        norm = self._update() if signal else 0.0
        metrics = StepMetrics(
            step=self._progress.step + signal,
            loss=sums.loss,
            gradient_norm=norm,
            clip_fraction=sums.clipped / sums.tokens,
            engine_kl=sums.engine_kl / sums.tokens,
            entropy=sums.entropy / sums.tokens,
            sampled_tokens=int(sums.tokens),
            sequences=len(sequences),
            padding=1 - sum(len(sequence.token_ids_S) for sequence in sequences) / sums.computed,
            seconds=time.monotonic() - begun,
            reference_kl=sums.reference_kl / sums.tokens,
            computed_tokens=int(sums.computed),
        )
        self._watch(metrics)
        if signal:
            self._advance(metrics)
        return metrics

    def score(self, turns: Sequence[Turn]) -> list[tuple[float, ...]]:
        """Log-probabilities of each turn's sampled tokens under the present weights, in nats. Raises ValueError."""
        read = [_read_unscored(turn, where=f"turns[{index}]") for index, turn in enumerate(turns)]
        return [self._score_turn(turn, number) for number, turn in enumerate(read)]

    def save_version(self) -> Path:
        """Writes the present weights as a version of their own, for an engine to load. Raises WriteFailed."""
        folder = self._versions / self.state.version
        state = self._ranks.gather(self._model.state_dict())
        self._ranks.first(lambda: self._write_version(folder, state))
        return folder.resolve()

    def mark_published(self, folder: Path) -> None:
        """The present weights serve now, from that folder; older versions may go. Raises WriteFailed."""
        publication = Publication(version=self.state.version, path=str(folder))
        kept = self._experiment.versions_kept
        self._ranks.first(lambda: self._checkpoints.save_published(publication))
        self._ranks.first(lambda: remove_oldest(self._versions.resolve(), kept=kept, spared=folder))
        self._published = publication

    def _sequences(self, batch: Sequence[CreditedTrajectory]) -> list[TrainingSequence]:
        sequences = [
            sequence
            for number, credited in enumerate(batch)
            for sequence in merge_turns(read_turns(credited), trajectory=number)
        ]
        if not sequences:
            raise ValueError("batch: held no sampled tokens; expected one trajectory at least")
        self._check(sequences)
        return sequences

    def _write_version(self, folder: Path, state: Mapping[str, Tensor]) -> None:
        model, version, dtype = self._model, self.state.version, DTYPES[self._experiment.publish_dtype]
        if self._experiment.publish == "adapter":
            write_adapter(folder, model, state, version=version, dtype=dtype)
            return
        if self._experiment.lora_rank:
            model = merge_adapters(_prepare(self._weights, self._experiment), state)
            state = model.state_dict()
        write_weights(folder, model, state, source=self._weights, version=version, dtype=dtype)

    def _check(self, sequences: Sequence[TrainingSequence]) -> None:
        config: Any = self._model.config
        limit = config.max_position_embeddings
        for sequence in sequences:
            tokens, where = sequence.token_ids_S, f"batch[{sequence.trajectory}]"
            if not 0 <= tokens.min() <= tokens.max() < config.vocab_size:
                outside = int(tokens.max() if tokens.min() >= 0 else tokens.min())
                raise ValueError(f"{where}: token id {outside}; expected 0 to {config.vocab_size - 1}")
            if len(tokens) > limit:
                raise ValueError(f"{where}: {len(tokens)} tokens in one context; expected at most {limit}")

    def _packs(self, sequences: Sequence[TrainingSequence]) -> list[Pack]:
        """Of this rank's sequences; weighed in the whole batch."""
        weights = loss_weights(sequences, normalisation=self._experiment.normalisation)
        mine = share([len(sequence.token_ids_S) for sequence in sequences], ranks=self._ranks.size)[self._ranks.rank]
        return self._pack([sequences[index] for index in mine], [weights[index] for index in mine])

    def _pack(self, sequences: Sequence[TrainingSequence], weights: Sequence[Floats]) -> list[Pack]:
        return pack(sequences, weights, max_tokens=self._experiment.pack_tokens if may_pack(self._model) else 1)

    def _accumulate(self, packs: Sequence[Pack], *, signal: bool) -> Sums:
        try:
            return self._passes.accumulate(packs, signal=signal)
        except BaseException:
            self._optimizer.forget()
            raise

    def _score_turn(self, turn: TrainingTurn, number: int) -> tuple[float, ...]:
        """All ranks score all of it: with sharded layers they compute together or not at all."""
        sequences = merge_turns([turn], trajectory=number)
        self._check(sequences)
        packs = self._pack(sequences, loss_weights(sequences, normalisation="token"))
        return tuple(value for each in packs for value in self._passes.score(each).tolist())

    def _update(self) -> float:
        norm = self._optimizer.update()
        if not math.isfinite(norm):
            raise StepRefused(
                f"gradient: its norm was {norm}; expected a finite number. Nothing was changed: look at the batch's "
                "log-probabilities and advantages, or train in float32"
            )
        return norm

    def _watch(self, metrics: StepMetrics) -> None:
        if metrics.engine_kl > self._experiment.engine_kl_alert:
            _log.warning(
                "step %d: engine and trainer differ by %.3g nats a token (alert at %g): stale trajectories, or an "
                "engine that does not serve what was published",
                metrics.step,
                metrics.engine_kl,
                self._experiment.engine_kl_alert,
            )

    def _repeated(self, after_step: int | None) -> StepMetrics | None:
        taken, last = self._progress.step, self._progress.last
        if after_step is None or after_step == taken:
            return None
        if after_step == taken - 1 and last is not None:
            if self._unsaved:
                self._save()
            return last
        raise StepRefused(f"after_step: was {after_step}; expected {taken}, the number of steps taken so far")

    def _advance(self, metrics: StepMetrics) -> None:
        self._progress = replace(self._progress, step=metrics.step, last=metrics)
        self._unsaved = True
        if metrics.step % self._experiment.checkpoint_every == 0:
            self._save()

    def _save(self) -> None:
        trainable = self._ranks.gather(self._optimizer.trainable)
        trainer = {"optimizer": self._optimizer.state(self._ranks)}
        progress = self._progress
        self._ranks.first(lambda: self._checkpoints.save(progress, trainable=trainable, trainer=trainer))
        self._unsaved = False

    def _resume(self) -> None:
        newest = self._ranks.first(self._checkpoints.newest)
        if newest is None:
            return
        progress = read_progress(newest)
        if progress.start_version != self._progress.start_version:
            raise ValueError(
                f"output: {newest} began from version {progress.start_version!r}; expected the weights' "
                f"{self._progress.start_version!r}. Choose another output folder, or those weights"
            )
        self._optimizer.restore(read_trainer(newest)["optimizer"], read_trainable(newest))
        self._progress = progress
        _log.info("went on from %s: step %d", newest, progress.step)


def _read_unscored(turn: Turn, *, where: str) -> TrainingTurn:
    unscored = None if turn.token_ids is None else (0.0,) * len(turn.token_ids)
    return read_turn(replace(turn, logprobs=unscored), TurnCredit(advantage=0.0, token_advantages=None), where=where)


def _prepare(weights: Path, experiment: LearnerExperiment) -> nn.Module:
    model: Any = load_model(weights)
    if experiment.activation_checkpointing:
        model.activation_checkpointing_enable({"use_reentrant": False})
    model.train()
    return add_adapters(model, rank=experiment.lora_rank) if experiment.lora_rank else model


def _reference(weights: Path) -> nn.Module:
    return load_model(weights).requires_grad_(False).eval()
