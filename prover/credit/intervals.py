"""Intervals for success rates and their difference, from counts alone."""

from math import sqrt

Z_90 = 1.6448536269514722
"""Two-sided 90% point of the normal distribution."""


def wilson_interval(successes: int, samples: int, *, z: float = Z_90) -> tuple[float, float]:
    """Wilson's score interval of a success probability (JASA 22, 1927). (0, 1) where there are no samples.

    >>> [round(bound, 3) for bound in wilson_interval(8, 8)]
    [0.747, 1.0]
    """
    if not 0 <= successes <= samples:
        raise ValueError(f"counts: {successes} successes of {samples} samples; expected 0 <= successes <= samples")
    if samples == 0:
        return 0.0, 1.0
    rate = successes / samples
    centre = rate + z * z / (2 * samples)
    half = z * sqrt(rate * (1 - rate) / samples + z * z / (4 * samples * samples))
    scale = 1 + z * z / samples
    return max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale)


def newcombe_interval(before: tuple[int, int], after: tuple[int, int], *, z: float = Z_90) -> tuple[float, float]:
    """Interval of after - before from (successes, samples) of each: Newcombe's hybrid score interval (Statistics in
    Medicine 17, 1998, method 10). It always holds the observed difference, and keeps its level at eight samples a side.

    >>> low, high = newcombe_interval((0, 8), (8, 8))
    >>> round(low, 3), high
    (0.643, 1.0)
    """
    if before[1] == 0 or after[1] == 0:
        return -1.0, 1.0
    rate_before, rate_after = before[0] / before[1], after[0] / after[1]
    low_before, high_before = wilson_interval(*before, z=z)
    low_after, high_after = wilson_interval(*after, z=z)
    delta = rate_after - rate_before
    low = delta - sqrt((rate_after - low_after) ** 2 + (high_before - rate_before) ** 2)
    high = delta + sqrt((high_after - rate_after) ** 2 + (rate_before - low_before) ** 2)
    return max(-1.0, low), min(1.0, high)
