"""Playing continuations: one batch restores one boundary and plays its samples to the end, all at once.

Each outcome is recorded under its sample number, the first one for good; so a batch may be played twice, by two workers
or after a crash, and counts once. Whoever finds the round complete sends the decision.
"""

import asyncio
import logging
import time
from dataclasses import dataclass

from prover.analysis import Analysis, Share
from prover.boundaries import SIDE
from prover.episodes import Played
from prover.lifecycle import Status
from prover.policies.policy import PolicyError
from prover.protocol import check_protocol
from prover.queues import DECIDE_TASK
from prover.store.analyses import AnalysisStore
from prover.trajectory import Outcome, Task, Trajectory
from services.verifier.alive import at_work
from services.verifier.endings import Endings
from services.verifier.metrics import Metrics
from services.verifier.player import Player, World, prepare
from services.verifier.replay import NotRestorable
from services.verifier.verifier import Send, missing_samples
from services.verifier.versions import Stale

_log = logging.getLogger("verifier")


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Samples `first_sample` to `first_sample + samples - 1` of one boundary, wanted in round `number`."""

    analysis_id: str
    number: int
    side: str
    first_sample: int
    samples: int

    def __post_init__(self) -> None:
        if not SIDE.fullmatch(self.side) or self.first_sample < 0 or self.samples < 1:
            raise ValueError(
                f"batch: was {self}; expected side before or after, or as before-2, first_sample >= 0, samples >= 1"
            )


class Continuations:
    """Plays batches. Bound to one event loop."""

    def __init__(
        self,
        store: AnalysisStore,
        world: World,
        send: Send,
        endings: Endings,
        metrics: Metrics,
        *,
        check_every_s: float = 1.0,
    ) -> None:
        """`check_every_s`: how soon a batch under way notices that it is not wanted any more."""
        self._store = store
        self._world = world
        self._send = send
        self._endings = endings
        self._metrics = metrics
        self._check_every_s = check_every_s

    async def play_batch(self, batch: Batch) -> None:
        """Plays what is still missing of a batch. Raises NewerAnalysis where this process is too old for it.

        Raises PolicyError where the engine did not answer: what had been played by then is recorded, and the batch may
        be tried again.
        """
        analysis = await self._wanted(batch)
        share = None if analysis is None or analysis.round is None else analysis.round.share(batch.side)
        if analysis is None or share is None:
            _log.info("batch dropped: not wanted any more", extra=_fields(batch))
            return
        last = batch.first_sample + batch.samples
        missing = await missing_samples(self._store, analysis.id, share)
        samples = [sample for sample in missing if batch.first_sample <= sample < last]
        if samples:
            async with at_work(self._store, analysis.id):
                await self._play(analysis, batch, share, samples)
        await self._close_round(batch)

    async def _play(self, analysis: Analysis, batch: Batch, share: Share, samples: list[int]) -> None:
        try:
            group = await self._store.group(analysis.id)
        except KeyError:
            _log.info("batch dropped: its group is gone", extra=_fields(batch))
            return
        try:
            player = await prepare(self._world, group, share.boundary, analysis.options)
            kept_of = group.task if analysis.options.keep_continuations else None
            await self._play_samples(player, batch, samples, kept_of=kept_of)
        except NotRestorable as error:
            await self._endings.plain(analysis, group, Status.NOT_RESTORABLE, error=str(error))
        except Stale as error:
            await self._endings.plain(analysis, group, Status.STALE, error=str(error))
        except ValueError as error:
            await self._endings.plain(analysis, group, Status.FAILED, error=str(error))

    async def _play_samples(self, player: Player, batch: Batch, samples: list[int], *, kept_of: Task | None) -> None:
        """Records each outcome as soon as it is there; stops in the middle where nobody waits for them any more.

        `kept_of`: the task whose trajectories the continuations are kept as; None keeps none.
        """
        episodes = {asyncio.create_task(self._play_one(player, batch, sample, kept_of)) for sample in samples}
        failure: PolicyError | None = None
        try:
            while episodes:
                ended, episodes = await asyncio.wait(
                    episodes, timeout=self._check_every_s, return_when=asyncio.FIRST_COMPLETED
                )
                for episode in ended:
                    failure = episode.result() or failure
                if episodes and await self._wanted(batch) is None:
                    _log.info("batch stopped: not wanted any more", extra=_fields(batch))
                    return
        finally:
            for episode in episodes:
                episode.cancel()
            await asyncio.gather(*episodes, return_exceptions=True)
        if failure is not None:
            raise failure

    async def _play_one(self, player: Player, batch: Batch, sample: int, kept_of: Task | None) -> PolicyError | None:
        """One continuation, recorded. A failed attempt is a value: its siblings go on."""
        began = time.monotonic()
        try:
            played = await player.play()
        except PolicyError as error:
            self._metrics.continuations.labels("no_answer").inc()
            return error
        kept_as = await self._keep(played, batch, sample, kept_of)
        outcome = Outcome(
            success=played.success,
            reward=played.reward,
            tokens=played.sampled_tokens,
            kept_as=kept_as,
            policy_version=played.policy_version or None,
        )
        first = await self._store.record_outcome(batch.analysis_id, side=batch.side, sample=sample, outcome=outcome)
        if kept_as is not None and not first:
            await self._store.drop_continuation(batch.analysis_id, kept_as)
        ended = ("success" if outcome.success else "failure") if first else "duplicate"
        self._metrics.continuations.labels(ended).inc()
        self._metrics.seconds.observe(time.monotonic() - began)
        self._metrics.tokens.inc(outcome.tokens)
        _log.info(
            "continuation ended",
            extra={**_fields(batch), "sample": sample, "outcome": ended, "tokens": outcome.tokens},
        )
        return None

    async def _keep(self, played: Played, batch: Batch, sample: int, kept_of: Task | None) -> str | None:
        """The document's name, stored before its outcome is. One without a turn has nothing to train on: None."""
        if kept_of is None or not played.turns:
            return None
        trajectory = Trajectory(
            id=f"{batch.side}-{sample}",
            task=kept_of,
            policy_version=played.policy_version,
            turns=played.turns,
            reward=played.reward,
            success=played.success,
            ending=played.ending,
        )
        return await self._store.keep_continuation(batch.analysis_id, trajectory)

    async def _close_round(self, batch: Batch) -> None:
        analysis = await self._wanted(batch)
        if analysis is None or analysis.round is None:
            return
        for share in analysis.round.shares:
            if await missing_samples(self._store, analysis.id, share):
                return
        await self._send(DECIDE_TASK, analysis.id, batch.number)

    async def _wanted(self, batch: Batch) -> Analysis | None:
        """The analysis while it waits for this batch's round."""
        analysis = await self._store.get(batch.analysis_id)
        if analysis is None or analysis.status is not Status.VERIFYING or analysis.round is None:
            return None
        check_protocol(analysis.protocol)
        return analysis if analysis.round.number == batch.number else None


def _fields(batch: Batch) -> dict[str, object]:
    return {
        "analysis": batch.analysis_id,
        "round": batch.number,
        "side": batch.side,
        "first_sample": batch.first_sample,
        "samples": batch.samples,
    }
