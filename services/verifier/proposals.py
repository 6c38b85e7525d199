"""What of a judgement is verified: as many proposals as were asked for, all without a fault; and what is known of them.

A judge checks its own answer; this one may be somebody else's.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from prover.analysis import Options
from prover.boundaries import sides
from prover.credit.allocation import Weighed
from prover.credit.modes import mode
from prover.credit.rules import Evidence
from prover.credit.segments import overlap, segment_fault
from prover.store.analyses import AnalysisStore
from prover.trajectory import Group, Judgement, Proposal, Segment
from services.verifier.audits import draw
from services.verifier.context import rebuilt_note
from services.verifier.passing import all_passed_through


def mode_fault(options: Options, *, keeps_records: bool) -> str | None:
    """What is wrong with the mode for these options; None where nothing is. ValueError where there is no such mode."""
    if not mode(options.mode).keeps_record:
        return None
    if not keeps_records:
        return f"options.mode: was {options.mode!r}; no records of judges are kept here"
    if options.proposals > 1 or options.credit != "positive":
        return (
            f"options.mode: was {options.mode!r} with proposals {options.proposals} and credit {options.credit!r}; "
            "expected one proposal and positive credit: a record is of a judge's first proposals"
        )
    return None


def wanted_of(group: Group, judgement: Judgement, options: Options) -> Judgement:
    """The judgement without the proposals that nobody asked for."""
    kinds = {"success": options.proposals, "failure": options.proposals if options.credit == "signed" else 0}
    kept: list[Proposal] = []
    for proposal in judgement.proposals:
        kind = "failure" if is_mistake(group, proposal.segment) else "success"
        kinds[kind] -= 1
        if kinds[kind] >= 0:
            kept.append(proposal)
    if not kept:
        reason = "every proposal is of a failed trajectory, and credit is not signed"
        return replace(judgement, proposals=(), no_proposal_reason=reason)
    return replace(judgement, proposals=tuple(kept))


def proposal_fault(group: Group, judgement: Judgement) -> str | None:
    """What is wrong with one of the proposals, or with all of them together; None where nothing is."""
    segments = segments_of(judgement)
    for segment in segments:
        known = {trajectory.id: trajectory for trajectory in group.trajectories}
        if segment.trajectory_id not in known:
            was = f"trajectory_id: was {segment.trajectory_id!r}; expected one of the group's"
            return f"judge {judgement.judge!r}: {was}"
        fault = segment_fault(segment, known[segment.trajectory_id])
        if fault is not None:
            return f"judge {judgement.judge!r}: {fault}"
    for one, other in combinations(segments, 2):
        if overlap(one, other):
            return f"judge {judgement.judge!r}: {one} and {other} share a turn; expected segments that share none"
    return None


def segments_of(judgement: Judgement) -> tuple[Segment, ...]:
    """Where the proposals look, in their order."""
    return tuple(proposal.segment for proposal in judgement.proposals)


def is_mistake(group: Group, segment: Segment) -> bool:
    """Whether the segment is of a failed trajectory. One of no trajectory is not."""
    return any(member.id == segment.trajectory_id and not member.success for member in group.trajectories)


async def weighed(
    store: AnalysisStore, analysis_id: str, group: Group, segments: Sequence[Segment]
) -> tuple[Weighed, ...]:
    """The segments with the outcomes so far."""
    successes = sum(trajectory.success for trajectory in group.trajectories)
    return tuple(
        [
            Weighed(
                before=before,
                after=after,
                evidence=Evidence(
                    before=await store.count(analysis_id, before),
                    after=await store.count(analysis_id, after),
                    group_successes=successes,
                    group_size=len(group.trajectories),
                    mistake=is_mistake(group, segment),
                    begins_with_group=all_passed_through(group, segment.before),
                    draw=draw(analysis_id),
                ),
            )
            for segment, (before, after) in zip(segments, sides(segments), strict=True)
        ]
    )


def context_note(group: Group, segments: Sequence[Segment], *, agent: str) -> str | None:
    """What a reader should know of the contexts that continuations start from; None where all were recorded."""
    turns: dict[str, set[int]] = {}
    for segment in segments:
        turns.setdefault(segment.trajectory_id, set()).update((segment.before.turn, segment.after.turn))
    notes = [
        rebuilt_note(group.trajectory(trajectory_id), sorted(found), agent=agent)
        for trajectory_id, found in turns.items()
    ]
    return "; ".join(filter(None, notes)) or None
