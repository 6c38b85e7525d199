"""As many continuations as a segment is worth: rounds, until one more would teach less than it costs."""

from dataclasses import dataclass, field

from prover.credit.joint import Beliefs, Joint
from prover.credit.rules import Evidence, Plan
from prover.trajectory import Verification


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptive:
    """A Bayesian rule of three parts; docs/verification.md derives them.

    Stopping and allocation are a knowledge gradient (Frazier, Powell and Dayanik 2008): of the next rounds that are
    possible (more before, more after, more of both), the one that takes most variance off the credit per continuation;
    none where that is less than it is worth.

    The credit is the posterior mean of the positive part, shrunk: with `caution` the price of credit on a segment that
    gains nothing, it is the b that minimises E[(b - delta+)^2] + 2 * caution * E[b; delta <= 0], which is
    max(0, E[delta+] - caution * P(delta <= 0)). Under `least` nothing is paid, and nothing without outcomes of both
    boundaries. Of a mistake the same goes for its loss, and the bonus is negative.

    Attributes:
        price: variance of the credit that one continuation must be expected to remove is price / K^2, K being the
            budget of a boundary: what the last ones of K a boundary remove falls like that too.
        caution: see above, in units of credit.
        least: smallest credit that is paid.
        opening: continuations of each boundary in the first round.
    """

    beliefs: Beliefs = field(default_factory=Beliefs)
    price: float = 0.12
    caution: float = 0.13
    least: float = 0.03
    opening: int = 2

    def plan(self, evidence: Evidence, *, samples: int) -> Plan | None:
        """The next round: an opening, then steps of a quarter of the budget, at least 2."""
        before, after = evidence.before.samples, evidence.after.samples
        opening = min(self.opening, samples)
        if before < opening or after < opening:
            return Plan(before=max(before, opening), after=max(after, opening))
        step = max(2, samples // 4)
        more_before, more_after = min(step, samples - before), min(step, samples - after)
        joint = self._posterior(evidence)
        _, variance = joint.gain()
        best: Plan | None = None
        best_rate = self.price / samples**2
        for here, there in ((more_before, more_after), (more_before, 0), (0, more_after)):
            if here + there == 0:
                continue
            learned = (variance - joint.expected_variance(here, there)) / (here + there)
            if learned > best_rate:
                best, best_rate = Plan(before=before + here, after=after + there, rate=learned), learned
        return best

    def settle(self, evidence: Evidence, *, samples: int, weight: float) -> Verification:
        """`delta` is the posterior mean; the interval is of the joint posterior, prior included."""
        joint = self._posterior(evidence)
        posterior = joint.delta()
        gain, _ = joint.gain()
        credit = gain - self.caution * (1.0 - joint.probability_gain())
        known = evidence.before.samples > 0 and evidence.after.samples > 0
        paid = credit if known and credit >= self.least else 0.0
        spent = evidence.before.samples >= samples and evidence.after.samples >= samples
        return Verification(
            before=evidence.before,
            after=evidence.after,
            delta=posterior.mean,
            interval=posterior.interval,
            probability_positive=posterior.probability_positive,
            bonus=0.0 - weight * paid if evidence.mistake else weight * paid,
            stopped_because=_reason(spent=spent, paid=paid > 0.0),
        )

    def _posterior(self, evidence: Evidence) -> Joint:
        prior = Joint.prior(
            self.beliefs,
            group_successes=evidence.group_successes,
            group_size=evidence.group_size,
            begins_with_group=evidence.begins_with_group,
            mistake=evidence.mistake,
        )
        return prior.given(evidence.before, evidence.after)


def _reason(*, spent: bool, paid: bool) -> str:
    if spent:
        return "budget: all continuations were played"
    if paid:
        return "precision: further continuations would hardly change the credit"
    return "futility: further continuations would hardly lead to a credit"
