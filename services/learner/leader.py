"""A `Learner` on several ranks: rank 0 leads, the others follow.

Each call that somebody makes on rank 0 is made on every rank. A rank that dies ends them all, since a step without it
would be another one: torchrun starts them again, and they go on from the newest checkpoint.
"""

import logging
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NoReturn, TypeVar

from prover.training import LearnerState, StepMetrics
from prover.trajectory import CreditedTrajectory, Turn
from services.learner.folders import WriteFailed
from services.learner.learner import Learner, StepRefused
from services.learner.ranks import Ranks

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

_ANSWERS = (ValueError, StepRefused, WriteFailed)
"""What a learner raises for its caller: on every rank alike, after which all of them stand where they stood."""


class Leader:
    """The learner of rank 0, for whoever calls it: the same methods, and each runs on every rank."""

    def __init__(self, learner: Learner, ranks: Ranks) -> None:
        self._learner = learner
        self._ranks = ranks

    @property
    def state(self) -> LearnerState:
        """How far training has come."""
        return self._learner.state

    @property
    def published_path(self) -> str:
        """The folder that was published last, or the one that training started from."""
        return self._learner.published_path

    def step(self, batch: Sequence[CreditedTrajectory], *, after_step: int | None = None) -> StepMetrics:
        """See `Learner.step`."""
        return self._lead(partial(Learner.step, batch=batch, after_step=after_step))

    def score(self, turns: Sequence[Turn]) -> list[tuple[float, ...]]:
        """See `Learner.score`."""
        return self._lead(partial(Learner.score, turns=turns))

    def save_version(self) -> Path:
        """See `Learner.save_version`."""
        return self._lead(Learner.save_version)

    def mark_published(self, folder: Path) -> None:
        """See `Learner.mark_published`."""
        self._lead(partial(Learner.mark_published, folder=folder))

    def dismiss(self) -> None:
        """Ends `follow` on the other ranks."""
        try:
            self._ranks.tell(None)
        except BaseException:
            _end()

    def _lead(self, call: Callable[[Learner], _T]) -> _T:
        """What is not an answer ends the process: the others may wait in a computation that this rank has left, and
        what their shares are is no longer known."""
        try:
            self._ranks.tell(call)
            return call(self._learner)
        except _ANSWERS:
            raise
        except BaseException:
            _end()


def follow(learner: Learner, ranks: Ranks) -> None:
    """On ranks other than 0: makes the leader's calls until it dismisses them. Signals are for the leader."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    while True:
        call: Callable[[Learner], object] | None = ranks.tell(None)
        if call is None:
            return
        with suppress(*_ANSWERS):  # rank 0 has the same one, and tells its caller
            call(learner)


def _end() -> NoReturn:
    _log.critical(
        "another rank ended, or this one failed in the middle of a call that all ranks make together: this process "
        "ends. Start all of them again (torchrun --max-restarts does that); they go on from the newest checkpoint",
        exc_info=True,
    )
    os._exit(1)
