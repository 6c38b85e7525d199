"""What happens next to an analysis: eligibility, proposal, rounds of continuations, verdict.

Nothing is held between calls and nothing waits: a call looks where the analysis stands and takes it as far as it goes.
So every call may be made again at any time, by anybody, and a process that dies in the middle has lost nothing: the
next call goes on from what is stored.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from prover.analysis import Analysis, Round
from prover.credit.eligibility import ineligible_because
from prover.credit.modes import mode
from prover.credit.rules import Evidence, Plan
from prover.credit.segments import segment_fault
from prover.lifecycle import END_STATES, Status
from prover.queues import CONTINUE_TASK
from prover.store.analyses import AnalysisStore
from prover.trajectory import Group, Judgement, Verification
from services.verifier.alive import at_work
from services.verifier.audits import Audits, draw
from services.verifier.context import rebuilt_note
from services.verifier.endings import Endings

SIDES = ("before", "after")

_log = logging.getLogger("verifier")


class JudgeRefused(Exception):
    """The judge says that it was asked for something it cannot do. Asking again would not help."""


class Judge(Protocol):
    """Proposes where to look."""

    async def propose(self, group: Group, *, judge: str, seed: int) -> Judgement:
        """A judgement of the group. Raises JudgeRefused."""
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
        """Takes an analysis as far as it goes without waiting, from wherever it stands."""
        group: Group | None = None
        while (analysis := await self._store.get(analysis_id)) is not None:
            if analysis.status in END_STATES:
                return
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
        try:
            self._check_mode(analysis)
            async with at_work(self._store, analysis.id):
                judgement = await self._judge.propose(group, judge=analysis.options.judge, seed=group.task.seed)
        except (JudgeRefused, ValueError) as error:
            await self._endings.plain(analysis, group, Status.FAILED, error=str(error))
            return
        if not judgement.proposals:
            await self._endings.plain(analysis, group, Status.NO_PROPOSAL, judgement=judgement)
            return
        fault = _proposal_fault(group, judgement)
        if fault is not None:
            await self._endings.plain(analysis, group, Status.FAILED, judgement=judgement, error=fault)
            return
        await self._begin(analysis, group, judgement)

    async def _begin(self, analysis: Analysis, group: Group, judgement: Judgement) -> None:
        next_step = await self._weigh(analysis, group, judgement)
        if isinstance(next_step, Verification):
            await self._settle(analysis, group, judgement, next_step)
            return
        note = _context_note(analysis, group, judgement)
        first = _round(1, next_step)
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
        if isinstance(next_step, Verification):
            await self._settle(analysis, group, analysis.judgement, next_step)
            return
        following = _round(analysis.round.number + 1, next_step, after=analysis.round)
        if await self._store.advance_round(analysis.id, current=analysis.round, following=following):
            await self._send_missing(analysis, following)

    async def _weigh(self, analysis: Analysis, group: Group, judgement: Judgement) -> Plan | Verification:
        """What the mode's rule says to the evidence: the next round, or the verdict."""
        options, chosen = analysis.options, mode(analysis.options.mode)
        evidence = Evidence(
            before=await self._store.count(analysis.id, "before"),
            after=await self._store.count(analysis.id, "after"),
            group_successes=sum(trajectory.success for trajectory in group.trajectories),
            group_size=len(group.trajectories),
            begins_with_group=judgement.proposals[0].segment.first_turn == 0,
            draw=draw(analysis.id),
        )
        plan = chosen.rule.plan(evidence, samples=options.samples)
        if plan is not None:
            return plan
        if chosen.keeps_record and self._audits is not None:
            evidence = replace(evidence, record=await self._audits.record(analysis, group, judgement))
        return chosen.rule.settle(evidence, samples=options.samples, weight=options.weight)

    async def _settle(self, analysis: Analysis, group: Group, judgement: Judgement, verdict: Verification) -> None:
        audited = mode(analysis.options.mode).keeps_record and verdict.before.samples > 0
        if audited and self._audits is not None:
            await self._audits.add(analysis, group, judgement, verdict.delta)
        await self._endings.verified(analysis, group, judgement, verdict)

    def _check_mode(self, analysis: Analysis) -> None:
        if mode(analysis.options.mode).keeps_record and self._audits is None:
            raise ValueError(f"options.mode: was {analysis.options.mode!r}; no records of judges are kept here")

    async def _send_missing(self, analysis: Analysis, wanted: Round) -> bool:
        """Sends what the round still lacks. False where it lacks nothing."""
        missing = [(side, await missing_samples(self._store, analysis.id, side, wanted)) for side in SIDES]
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


async def missing_samples(store: AnalysisStore, analysis_id: str, side: str, wanted: Round) -> list[int]:
    """The samples of one boundary that the round lacks, ascending."""
    played = await store.outcomes(analysis_id, side)
    total = wanted.before if side == "before" else wanted.after
    return [sample for sample in range(total) if sample not in played]


def _round(number: int, plan: Plan, *, after: Round | None = None) -> Round:
    return Round(
        number=number,
        before=plan.before,
        after=plan.after,
        first_before=0 if after is None else after.before,
        first_after=0 if after is None else after.after,
    )


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


def _proposal_fault(group: Group, judgement: Judgement) -> str | None:
    """What is wrong with the proposal. A judge checks its own; this one may be somebody else's."""
    segment = judgement.proposals[0].segment
    if not any(trajectory.id == segment.trajectory_id for trajectory in group.trajectories):
        return f"judge {judgement.judge!r}: trajectory_id: was {segment.trajectory_id!r}; expected one of the group's"
    fault = segment_fault(segment, group.trajectory(segment.trajectory_id))
    return None if fault is None else f"judge {judgement.judge!r}: {fault}"


def _context_note(analysis: Analysis, group: Group, judgement: Judgement) -> str | None:
    if analysis.options.continuations != "internal":
        return None
    segment = judgement.proposals[0].segment
    turns = (segment.before.turn, segment.after.turn)
    return rebuilt_note(group.trajectory(segment.trajectory_id), turns, agent=analysis.options.agent)
