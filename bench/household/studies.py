"""What the studies behind docs/verification.md found, and whether a run of ours says the same.

Their program is not this one: what it does not tell of its household (where sink and stove stand, what the policy sees,
its network, the tokens of one study) was set here by what GRPO does there: docs/verification.md says how.
"""

from collections.abc import Mapping, Sequence

_NEAR = 0.01
"""The standard error of a score where the study names none for it: it says that they are near this."""

Scores = Mapping[str, tuple[float, float]]

UNEQUAL_SCORES: Scores = {
    "grpo": (0.653, 0.012),
    "fixed8": (0.603, _NEAR),
    "fixed8 weight 3": (0.607, _NEAR),
    "K = 3 weight 3": (0.660, _NEAR),
    "frugal": (0.664, 0.009),
    "frugal 50%": (0.654, _NEAR),
    "frugal random": (0.659, _NEAR),
    "frugal wrong": (0.624, _NEAR),
    "unverified 2": (0.676, _NEAR),
    "unverified 2 random": (0.637, _NEAR),
    "unverified 2 wrong": (0.613, _NEAR),
    "unverified 5": (0.695, 0.006),
    "unverified 5 50%": (0.672, _NEAR),
    "unverified 5 random": (0.626, _NEAR),
    "K = 3 weight 3 + train": (0.680, _NEAR),
    "K = 3 weight 6 + train": (0.695, 0.015),
    "fixed8 weight 3 + train": (0.690, 0.013),
    "fixed8 weight 3 random + train": (0.653, _NEAR),
    "fixed8 weight 3 wrong + train": (0.660, _NEAR),
    "fixed8 no bonus + train": (0.647, _NEAR),
    "exact weight 3": (0.696, 0.020),
    "audited": (0.695, 0.007),
    "audited 50%": (0.686, 0.005),
    "audited random": (0.660, 0.008),
    "audited wrong": (0.642, 0.008),
}
"""Five kinds of task, 600,000 tokens, 4 seeds: mean success over training and its standard error."""

EQUAL_STEPS_SCORES: Scores = {
    "grpo": (0.515, _NEAR),
    "grpo 22 groups": (0.566, _NEAR),
    "fixed8": (0.531, _NEAR),
    "fixed8 wrong": (0.509, _NEAR),
    "frugal": (0.526, _NEAR),
    "unverified 2": (0.526, _NEAR),
    "unverified 2 wrong": (0.461, _NEAR),
    "exact weight 3": (0.545, _NEAR),
}
"""The same at 120 optimizer steps."""

HOUSEHOLD_SCORES: Scores = {
    "grpo": (0.729, 0.013),
    "grpo normalised": (0.723, 0.015),
    "fixed8 weight 3": (0.681, 0.012),
    "K = 2 weight 3": (0.759, 0.018),
    "frugal": (0.767, 0.013),
    "frugal weight 1": (0.754, _NEAR),
    "frugal weight 6": (0.758, _NEAR),
    "frugal signed": (0.740, 0.006),
    "frugal 60%": (0.747, _NEAR),
    "frugal 30%": (0.742, _NEAR),
    "frugal random": (0.713, 0.009),
    "frugal wrong": (0.700, _NEAR),
    "frugal first": (0.721, _NEAR),
    "exact weight 3": (0.770, 0.004),
    "unverified 2": (0.776, 0.010),
    "unverified 2 wrong": (0.738, _NEAR),
}
"""One kind of task, 4 to 6 seeds. Its tokens are not told; ours are those at which GRPO has its level."""

STUDIES: Mapping[str, Scores] = {
    "unequal": UNEQUAL_SCORES,
    "unequal, equal steps": EQUAL_STEPS_SCORES,
    "household": HOUSEHOLD_SCORES,
}


def studied_difference(study: str, method: str) -> tuple[float, float] | None:
    """The study's difference to its GRPO and the half width of its 95% interval; None where it has no such method.

    For "grpo" itself it is the level. Differences there are taken as unpaired: their seeds are not told.

    >>> studied_difference("unequal", "audited")
    (0.042, 0.027)
    >>> studied_difference("unequal", "audited half") is None
    True
    """
    scores = STUDIES[study]
    if method not in scores:
        return None
    (score, error), (base, base_error) = scores[method], scores["grpo"]
    if method == "grpo":
        return base, round(1.96 * base_error, 3)
    return round(score - base, 3), round(1.96 * (error**2 + base_error**2) ** 0.5, 3)


def is_reproduced(ours: Sequence[float], studied: tuple[float, float]) -> bool:
    """Whether ours (mean, low, high) and the study's (mean, half width) are one figure within their 95% intervals.

    >>> is_reproduced((0.06, 0.04, 0.08), (0.042, 0.027))
    True
    >>> is_reproduced((0.13, 0.12, 0.14), (0.042, 0.027))
    False
    """
    mean, low, high = ours
    return abs(mean - studied[0]) <= (((high - low) / 2) ** 2 + studied[1] ** 2) ** 0.5
