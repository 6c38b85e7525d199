"""What happens next to an analysis: eligibility, proposal, rounds of continuations, verdict.

Nothing is held between calls and nothing waits: a call looks where the analysis stands and takes it as far as it goes.
So every call may be made again at any time, by anybody, and a process that dies in the middle has lost nothing: the
next call goes on from what is stored.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from prover.analysis import Analysis, Round, Share
from prover.boundaries import boundaries
from prover.credit.allocation import next_round, settle_all
from prover.credit.eligibility import ineligible_because
from prover.credit.modes import mode
from prover.lifecycle import END_STATES, Status
from prover.protocol import check_protocol
from prover.queues import CONTINUE_TASK
from prover.store.analyses import AnalysisStore
from prover.trajectory import Group, Judgement, Verification
from services.verifier.alive import at_work
from services.verifier.audits import Audits
from services.verifier.endings import Endings
from services.verifier.proposals import context_note, mode_fault, proposal_fault, segments_of, wanted_of, weighed

_log = logging.getLogger("verifier")


class JudgeRefused(Exception):
    """The judge says that it was asked for something it cannot do. Asking again would not help."""


class Judge(Protocol):
    """Proposes where to look."""

    async def propose(self, group: Group, *, judge: str, seed: int, proposals: int, mistakes: int) -> Judgement:
        """A judgement of the group: at most so many segments of a success, and so many of failures. JudgeRefused."""
        ...


class Send(Protocol):
    """Hands a task to whoever works next."""

    async def __call__(self, task: str, *arguments: object) -> None:
        """Returns once the task is in its queue."""
        ...


class Coordinator:
    """Decides. The expensive work is in the tasks that it sends."""

    def __init__(
        self,
        store: AnalysisStore,
        judge: Judge,
        send: Send,
        endings: Endings,
        *,
        audits: Audits | None = None,
        batch_samples: int = 4,
    ) -> None:
        """`batch_samples`: most continuations of one task. Fewer spread over more workers, more share a prefix.

        Without `audits` no records of judges are kept, and modes that need one are refused.
        """
        self._store = store
        self._judge = judge
        self._send = send
        self._endings = endings
        self._audits = audits
        self._batch_samples = batch_samples

    async def analyze(self, analysis_id: str) -> None:
        """Takes an analysis as far as it goes without waiting, from wherever it stands. Raises NewerAnalysis."""
        group: Group | None = None
        while (analysis := await self._store.get(analysis_id)) is not None:
            if analysis.status in END_STATES:
                return
            check_protocol(analysis.protocol)
            if analysis.status is Status.VERIFYING:
                await self._advance(analysis)
                return
            group = group or await self._group(analysis)
            if group is None:
                return
            if analysis.status is Status.QUEUED:
                await self._admit(analysis, group)
            else:
                await self._propose(analysis, group)
        _log.warning("dropped: no such analysis", extra={"analysis": analysis_id})

    async def decide(self, analysis_id: str, number: int, *, again: bool = False) -> None:
        """All outcomes of round `number` are in. `again`: this call was made before and may have been cut short."""
        analysis = await self._store.get(analysis_id)
        if analysis is None or analysis.status is not Status.VERIFYING or analysis.round is None:
            return
        check_protocol(analysis.protocol)
        # A later round is on its way already, unless who sent it died between deciding and sending.
        if analysis.round.number == number or (again and analysis.round.number > number):
            await self._advance(analysis)

    async def _admit(self, analysis: Analysis, group: Group) -> None:
        successes = sum(trajectory.success for trajectory in group.trajectories)
        reason = ineligible_because(successes, len(group.trajectories))
        if reason is not None:
            await self._endings.plain(analysis, group, Status.NOT_ELIGIBLE, note=reason)
            return
        await self._store.move(analysis.id, Status.PROPOSING)

    async def _propose(self, analysis: Analysis, group: Group) -> None:
        options = analysis.options
        try:
            fault = mode_fault(options, keeps_records=self._audits is not None)
            if fault is not None:
                raise ValueError(fault)
            async with at_work(self._store, analysis.id):
                judgement = await self._judge.propose(
                    group,
                    judge=options.judge,
                    seed=group.task.seed,
                    proposals=options.proposals,
                    mistakes=options.proposals if options.credit == "signed" else 0,
                )
        except (JudgeRefused, ValueError) as error:
            await self._endings.plain(analysis, group, Status.FAILED, error=str(error))
            return
        judgement = wanted_of(group, judgement, options) if judgement.proposals else judgement
        if not judgement.proposals:
            await self._endings.plain(analysis, group, Status.NO_PROPOSAL, judgement=judgement)
            return
        fault = proposal_fault(group, judgement)
        if fault is not None:
            await self._endings.plain(analysis, group, Status.FAILED, judgement=judgement, error=fault)
            return
        await self._begin(analysis, group, judgement)

    async def _begin(self, analysis: Analysis, group: Group, judgement: Judgement) -> None:
        next_step = await self._weigh(analysis, group, judgement)
        if isinstance(next_step, tuple):
            await self._settle(analysis, group, judgement, next_step)
            return
        internal = analysis.options.continuations == "internal"
        note = context_note(group, segments_of(judgement), agent=analysis.options.agent) if internal else None
        first = _round(1, next_step, judgement)
        await self._store.move(analysis.id, Status.VERIFYING, judgement=judgement, round=first, note=note)

    async def _advance(self, analysis: Analysis) -> None:
        if analysis.round is None or analysis.judgement is None:
            raise RuntimeError(f"analysis {analysis.id!r}: verifying without a round or a judgement")
        if await self._send_missing(analysis, analysis.round):
            return
        group = await self._group(analysis)
        if group is None:
            return
        next_step = await self._weigh(analysis, group, analysis.judgement)
        if isinstance(next_step, tuple):
            await self._settle(analysis, group, analysis.judgement, next_step)
            return
        following = _round(analysis.round.number + 1, next_step, analysis.judgement, after=analysis.round)
        if await self._store.advance_round(analysis.id, current=analysis.round, following=following):
            await self._send_missing(analysis, following)

    async def _weigh(
        self, analysis: Analysis, group: Group, judgement: Judgement
    ) -> Mapping[str, int] | tuple[Verification, ...]:
        """What the mode's rule says to the evidence: the next round, or the verdicts."""
        options = analysis.options
        chosen = mode(options.mode, audited_share=options.audited_share)
        segments = await weighed(self._store, analysis.id, group, segments_of(judgement))
        following = next_round(chosen.rule, segments, samples=options.samples, budget=options.budget)
        if following is not None:
            return following
        if chosen.keeps_record and self._audits is not None:
            record = await self._audits.record(analysis, group, judgement)
            segments = tuple(
                replace(one, evidence=replace(one.evidence, record=record.deltas, shift=record.shift))
                for one in segments
            )
        return settle_all(chosen.rule, segments, samples=options.samples, weight=options.weight)

    async def _settle(
        self, analysis: Analysis, group: Group, judgement: Judgement, verdicts: tuple[Verification, ...]
    ) -> None:
        audited = mode(analysis.options.mode).keeps_record and verdicts[0].before.samples > 0
        if audited and self._audits is not None:
            await self._audits.add(analysis, group, judgement, verdicts[0].delta)
        await self._endings.verified(analysis, group, judgement, verdicts)

    async def _send_missing(self, analysis: Analysis, wanted: Round) -> bool:
        """Sends what the round still lacks. False where it lacks nothing."""
        missing = [(share.side, await missing_samples(self._store, analysis.id, share)) for share in wanted.shares]
        if not any(samples for _, samples in missing):
            return False
        if analysis.options.continuations == "internal":
            for side, samples in missing:
                for first, number in batches(samples, self._batch_samples):
                    await self._send(CONTINUE_TASK, analysis.id, wanted.number, side, first, number)
        return True

    async def _group(self, analysis: Analysis) -> Group | None:
        try:
            return await self._store.group(analysis.id)
        except KeyError:
            # Deleted in this moment, or a document store that lost it: either way there is nothing to work on.
            await self._endings.failed(analysis.id, "group: its document is gone; hand the group in again")
            return None


async def missing_samples(store: AnalysisStore, analysis_id: str, share: Share) -> list[int]:
    """The samples of one boundary that its round lacks, ascending."""
    played = await store.outcomes(analysis_id, share.side)
    return [sample for sample in range(share.total) if sample not in played]


def _round(number: int, totals: Mapping[str, int], judgement: Judgement, *, after: Round | None = None) -> Round:
    shares: list[Share] = []
    for side, boundary in boundaries(segments_of(judgement)).items():
        earlier = None if after is None else after.share(side)
        first = 0 if earlier is None else earlier.total
        shares.append(Share(side=side, boundary=boundary, first=first, total=totals[side]))
    return Round(number=number, shares=tuple(shares))


def batches(samples: Sequence[int], most: int) -> Iterator[tuple[int, int]]:
    """(first, number) of runs of consecutive samples, at most `most` long."""
    first, number = 0, 0
    for sample in samples:
        if number and sample == first + number and number < most:
            number += 1
            continue
        if number:
            yield first, number
        first, number = sample, 1
    if number:
        yield first, number
