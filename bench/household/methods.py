"""The credit rules and the judges that the studies compare. A table; every row is one line of the results."""

from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Points at one turn of the anchor: the one with the largest true gain with probability `right`, else `otherwise`.

    `otherwise`: "random", "worst" (the smallest true gain: wrong on purpose) or "first" (always the first turn).
    """

    right: float = 1.0
    otherwise: str = "random"


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One way to pay.

    Attributes:
        pay: "nothing", "verified" (positive part), "signed", "constant" (not verified), "spread" (the constant's mass
            over the whole anchor), "exact" (the true gain, at no cost) or "audited".
        samples: continuations a boundary where something is verified.
        weight: the paper's lambda; the constant itself where pay is "constant" or "spread".
        audited_share: chance that a proposal is verified at all.
        train_continuations: continuations are trained on too, as groups of their own boundary.
        apart: the record is kept apart by features of the proposals, as the service does.
        judge: None where nobody is asked.
        groups: rollout groups a step.
        normalise: std-normalised group advantages.
    """

    pay: str = "nothing"
    samples: int = 0
    weight: float = 0.0
    audited_share: float = 1.0
    train_continuations: bool = False
    apart: bool = False
    judge: Judge | None = None
    groups: int = 16
    normalise: bool = False


GOOD = Judge()
SIXTY = Judge(right=0.6)
FIFTY = Judge(right=0.5)
THIRTY = Judge(right=0.3)
RANDOM = Judge(right=0.0)
WRONG = Judge(right=0.0, otherwise="worst")
FIRST = Judge(right=0.0, otherwise="first")


def audited(
    judge: Judge, *, samples: int = 1, weight: float = 10.0, share: float = 0.25, train: bool = False
) -> Method:
    """A share of the proposals verified with few continuations a side, all paid `weight` times the record."""
    return Method(
        pay="audited", samples=samples, weight=weight, judge=judge, audited_share=share, train_continuations=train
    )


def constant(judge: Judge, amount: float) -> Method:
    """The control: the same kind of bonus, on nobody's evidence."""
    return Method(pay="constant", weight=amount, judge=judge)


def spread(judge: Judge, amount: float) -> Method:
    """The control: the same mass evenly over the anchor, wherever the judge points."""
    return Method(pay="spread", weight=amount, judge=judge)


def verified(judge: Judge, samples: int, weight: float, *, train: bool = False) -> Method:
    """The paper's rule with other numbers; fixed8 is the paper's."""
    return Method(pay="verified", samples=samples, weight=weight, judge=judge, train_continuations=train)


CLAIMS: Mapping[str, Method] = {
    "grpo": Method(),
    "audited": audited(GOOD),
    "audited random": audited(RANDOM),
    "audited wrong": audited(WRONG),
    "fixed8": verified(GOOD, 8, 1.0),
    "frugal": verified(GOOD, 1, 3.0),
    "unverified 5": constant(GOOD, 5.0),
    "unverified 5 random": constant(RANDOM, 5.0),
    "unverified 5 wrong": constant(WRONG, 5.0),
}
"""What the claims of docs/verification.md rest on; a full run does these first."""

QUICK: Mapping[str, Method] = {
    **CLAIMS,
    "audited K = 4 + train": audited(GOOD, samples=4, train=True),
    "fixed8 weight 3 + train": verified(GOOD, 8, 3.0, train=True),
    "audited 60%": audited(SIXTY),
    "audited 30%": audited(THIRTY),
    "spread 5": spread(GOOD, 5.0),
    "frugal random": verified(RANDOM, 1, 3.0),
    "frugal wrong": verified(WRONG, 1, 3.0),
    "unverified 5 60%": constant(SIXTY, 5.0),
    "unverified 5 30%": constant(THIRTY, 5.0),
}

FULL: Mapping[str, Method] = {
    **QUICK,
    "audited first": audited(FIRST),
    "exact weight 3": Method(pay="exact", weight=3.0, judge=GOOD),
    "audited wrong K = 4 + train": audited(WRONG, samples=4, train=True),
    "fixed8 weight 3": verified(GOOD, 8, 3.0),
    "fixed8 weight 3 wrong + train": verified(WRONG, 8, 3.0, train=True),
    "fixed8 weight 3 random + train": verified(RANDOM, 8, 3.0, train=True),
    "unverified 5 first": constant(FIRST, 5.0),
    "unverified 2": constant(GOOD, 2.0),
    "unverified 2 wrong": constant(WRONG, 2.0),
    "audited K = 2 + train": audited(GOOD, samples=2, train=True),
    "audited random K = 4 + train": audited(RANDOM, samples=4, train=True),
    "audited K = 4": audited(GOOD, samples=4),
    "audited weight 3": audited(GOOD, weight=3.0),
    "audited weight 20": audited(GOOD, weight=20.0),
    "audited half": audited(GOOD, share=0.5),
    "audited tenth": audited(GOOD, share=0.1),
    "K = 3 weight 3": verified(GOOD, 3, 3.0),
    "K = 3 weight 3 + train": verified(GOOD, 3, 3.0, train=True),
    "K = 3 weight 6 + train": verified(GOOD, 3, 6.0, train=True),
    "fixed8 no bonus + train": verified(GOOD, 8, 0.0, train=True),
    "frugal 60%": verified(SIXTY, 1, 3.0),
    "frugal 30%": verified(THIRTY, 1, 3.0),
    "frugal first": verified(FIRST, 1, 3.0),
    "frugal weight 1": verified(GOOD, 1, 1.0),
    "frugal weight 6": verified(GOOD, 1, 6.0),
    "frugal signed": Method(pay="signed", samples=1, weight=3.0, judge=GOOD),
    "K = 2 weight 3": verified(GOOD, 2, 3.0),
    "grpo normalised": Method(normalise=True),
    "audited apart": replace(audited(GOOD), apart=True),
    "audited apart 30%": replace(audited(THIRTY), apart=True),
    "audited apart random": replace(audited(RANDOM), apart=True),
    "audited apart wrong": replace(audited(WRONG), apart=True),
    "audited 50%": audited(FIFTY),
    "frugal 50%": verified(FIFTY, 1, 3.0),
    "unverified 5 50%": constant(FIFTY, 5.0),
    "unverified 2 random": constant(RANDOM, 2.0),
}
"""Ordered: a run that is stopped has done the rows above for more seeds than those below."""

EQUAL_STEPS: Mapping[str, Method] = {
    "grpo": Method(),
    "grpo 22 groups": Method(groups=22),
    "audited": audited(GOOD),
    "audited wrong": audited(WRONG),
    "fixed8": verified(GOOD, 8, 1.0),
    "fixed8 wrong": verified(WRONG, 8, 1.0),
    "frugal": verified(GOOD, 1, 3.0),
    "unverified 2": constant(GOOD, 2.0),
    "unverified 2 wrong": constant(WRONG, 2.0),
    "exact weight 3": Method(pay="exact", weight=3.0, judge=GOOD),
}
