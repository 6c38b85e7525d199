"""The credit rules and the judges that the studies compare. A table; every row is one line of the results."""

from collections.abc import Mapping
from dataclasses import dataclass


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
        train_continuations: continuations are trained on too, as groups of their own boundary.
        judge: None where nobody is asked.
        groups: rollout groups a step.
        normalise: std-normalised group advantages.
    """

    pay: str = "nothing"
    samples: int = 0
    weight: float = 0.0
    train_continuations: bool = False
    judge: Judge | None = None
    groups: int = 16
    normalise: bool = False


GOOD = Judge()
SIXTY = Judge(right=0.6)
HALF = Judge(right=0.5)
THIRTY = Judge(right=0.3)
RANDOM = Judge(right=0.0)
WRONG = Judge(right=0.0, otherwise="worst")
FIRST = Judge(right=0.0, otherwise="first")

AUDIT_SHARE = 0.25


def audited(judge: Judge, *, train: bool = False) -> Method:
    """A quarter of the proposals verified with one continuation a side, all paid 10 times the record."""
    return Method(pay="audited", samples=1, weight=10.0, judge=judge, train_continuations=train)


def constant(judge: Judge, amount: float) -> Method:
    """The control: the same kind of bonus, on nobody's evidence."""
    return Method(pay="constant", weight=amount, judge=judge)


def verified(judge: Judge, samples: int, weight: float, *, train: bool = False) -> Method:
    """The paper's rule with other numbers; fixed8 is the paper's."""
    return Method(pay="verified", samples=samples, weight=weight, judge=judge, train_continuations=train)


QUICK: Mapping[str, Method] = {
    "grpo": Method(),
    "fixed8": verified(GOOD, 8, 1.0),
    "frugal": verified(GOOD, 1, 3.0),
    "audited": audited(GOOD),
    "audited random": audited(RANDOM),
    "audited wrong": audited(WRONG),
    "unverified 5": constant(GOOD, 5.0),
    "unverified 5 random": constant(RANDOM, 5.0),
    "unverified 5 wrong": constant(WRONG, 5.0),
    "audited + train": audited(GOOD, train=True),
    "fixed8 + train": verified(GOOD, 8, 3.0, train=True),
}

FULL: Mapping[str, Method] = {
    **QUICK,
    "grpo normalised": Method(normalise=True),
    "fixed8 weight 3": verified(GOOD, 8, 3.0),
    "K = 3 weight 3": verified(GOOD, 3, 3.0),
    "K = 3 weight 3 + train": verified(GOOD, 3, 3.0, train=True),
    "frugal half": verified(HALF, 1, 3.0),
    "frugal random": verified(RANDOM, 1, 3.0),
    "frugal wrong": verified(WRONG, 1, 3.0),
    "frugal weight 1": verified(GOOD, 1, 1.0),
    "frugal weight 6": verified(GOOD, 1, 6.0),
    "frugal signed": Method(pay="signed", samples=1, weight=3.0, judge=GOOD),
    "exact weight 3": Method(pay="exact", weight=3.0, judge=GOOD),
    "audited 60%": audited(SIXTY),
    "audited 30%": audited(THIRTY),
    "audited first": audited(FIRST),
    "audited wrong + train": audited(WRONG, train=True),
    "fixed8 wrong + train": verified(WRONG, 8, 3.0, train=True),
    "fixed8 random + train": verified(RANDOM, 8, 3.0, train=True),
    "unverified 2": constant(GOOD, 2.0),
    "unverified 2 wrong": constant(WRONG, 2.0),
    "unverified 5 60%": constant(SIXTY, 5.0),
    "unverified 5 30%": constant(THIRTY, 5.0),
    "unverified 5 first": constant(FIRST, 5.0),
    "spread 5": Method(pay="spread", weight=5.0, judge=GOOD),
}

EQUAL_STEPS: Mapping[str, Method] = {
    "grpo": Method(),
    "grpo 22 groups": Method(groups=22),
    "fixed8": verified(GOOD, 8, 1.0),
    "frugal": verified(GOOD, 1, 3.0),
    "unverified 2": constant(GOOD, 2.0),
    "unverified 2 wrong": constant(WRONG, 2.0),
    "fixed8 wrong": verified(WRONG, 8, 1.0),
    "exact weight 3": Method(pay="exact", weight=3.0, judge=GOOD),
    "audited": audited(GOOD),
    "audited wrong": audited(WRONG),
}
