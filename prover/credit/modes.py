"""The modes of verification: the visible table."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from prover.credit.adaptive import Adaptive
from prover.credit.audited import Audited
from prover.credit.rules import Fixed, Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """A rule, and what `samples` (K) and `weight` (lambda) are where a caller does not say.

    Attributes:
        keeps_record: the rule pays by the judge's record, and what it verifies joins the record.
        divides_budget: the rule can do with fewer continuations of one segment in favour of another.
    """

    rule: Rule
    samples: int
    weight: float
    keeps_record: bool = False
    divides_budget: bool = False

    @property
    def most_samples(self) -> int | None:
        """Most continuations of a boundary that the rule plays, however many are asked for; None is no such limit."""
        return self.rule.most if isinstance(self.rule, Fixed) else None


MODES: Mapping[str, Mode] = {
    "fixed": Mode(rule=Fixed(), samples=8, weight=1.0),
    "audited": Mode(rule=Audited(), samples=1, weight=10.0, keeps_record=True),
    "adaptive": Mode(rule=Adaptive(), samples=8, weight=1.0, divides_budget=True),
    "frugal": Mode(rule=Fixed(most=1), samples=1, weight=3.0),
}


def mode(name: str, *, audited_share: float | None = None) -> Mode:
    """The mode of that name; `audited_share` replaces the share of one that verifies a share. ValueError lists the
    known ones."""
    if name not in MODES:
        raise ValueError(f"options.mode: was {name!r}; expected one of {', '.join(sorted(MODES))}")
    chosen = MODES[name]
    if audited_share is None or not isinstance(chosen.rule, Audited):
        return chosen
    return replace(chosen, rule=Audited(share=audited_share))
