"""Verify the judge, not every proposal: a share is audited, every proposal is paid by the judge's verified record."""

from dataclasses import dataclass

from prover.credit.posterior import independent_delta
from prover.credit.record import audited_bonus, record_delta
from prover.credit.rules import Evidence, Plan, rate
from prover.trajectory import Verification


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """The mode for training: outcomes stay the only source of credit, at a small part of the continuations.

    A proposal that was drawn is verified, and its delta joins the record before it is paid. One that was not drawn is
    paid the same: weight * record. Of its own values nothing is known then, and its verification says so.

    Attributes:
        share: probability that a proposal is audited.
    """

    share: float = 0.25

    def plan(self, evidence: Evidence, *, samples: int) -> Plan | None:
        """Everything at once for an audit, nothing otherwise."""
        if evidence.draw >= self.share:
            return None
        if evidence.before.samples >= samples and evidence.after.samples >= samples:
            return None
        return Plan(before=samples, after=samples)

    def settle(self, evidence: Evidence, *, samples: int, weight: float) -> Verification:
        """Delta and interval are the segment's own; the bonus is the judge's record."""
        drawn = evidence.draw < self.share
        delta = rate(evidence.after) - rate(evidence.before) if drawn else 0.0
        deltas = (*evidence.record, delta) if drawn else evidence.record
        posterior = independent_delta(
            (evidence.before.successes, evidence.before.samples), (evidence.after.successes, evidence.after.samples)
        )
        record = f"the credit is the judge's record, {record_delta(deltas):.3f} over {len(deltas)} audits"
        if evidence.shift != 0.0:
            record += f", {evidence.shift:+.3f} for proposals like this one"
        return Verification(
            before=evidence.before,
            after=evidence.after,
            delta=delta,
            interval=posterior.interval,
            probability_positive=posterior.probability_positive,
            bonus=audited_bonus(deltas, weight=weight, shift=evidence.shift),
            stopped_because=(
                f"audited; {record}, this one among them"
                if drawn
                else f"not drawn for an audit: nothing is known of this segment itself; {record}"
            ),
        )
