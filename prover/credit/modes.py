"""The modes of verification: the visible table."""

from collections.abc import Mapping
from dataclasses import dataclass

from prover.credit.adaptive import Adaptive
from prover.credit.rules import Fixed, Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """A rule, and what `samples` (K) and `weight` (lambda) are where a caller does not say."""

    rule: Rule
    samples: int
    weight: float


MODES: Mapping[str, Mode] = {
    "fixed": Mode(rule=Fixed(), samples=8, weight=1.0),
    "adaptive": Mode(rule=Adaptive(), samples=8, weight=1.0),
    "frugal": Mode(rule=Fixed(most=1), samples=1, weight=3.0),
}


def mode(name: str) -> Mode:
    """The mode of that name. ValueError lists the known ones."""
    if name not in MODES:
        raise ValueError(f"options.mode: was {name!r}; expected one of {', '.join(sorted(MODES))}")
    return MODES[name]
