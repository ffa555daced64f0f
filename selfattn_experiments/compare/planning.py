"""What a number of seeds can detect: planned before a study, not read off its outcome.

Power computed for the observed difference only restates the p-value (Hoenig and Heisey 2001); the
smallest difference that can be detected depends on the spread and the number of runs.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence

from .results import Planning
from .run_level import below, scipy_stats, spread

MOST_SEEDS = 100_000


def power(difference: float, sx: float, sy: float, n: int, m: int, alpha: float) -> float:
    """The share of experiments in which Welch's test would find a true difference.

    Args:
        difference: the true one.
        sx: standard deviation of the baseline's runs.
        sy: likewise of the system's.
        n: runs of the baseline, 2 or more.
        m: runs of the system, 2 or more.
        alpha: level of the two-sided test.
    """
    error, freedom = _welch_error(sx, sy, n, m)
    if error == 0:
        return 1.0 if difference else alpha
    critical = float(scipy_stats().t.isf(alpha / 2, freedom))
    ncp = abs(difference) / error
    found = 1 - below(critical, freedom, ncp) + below(-critical, freedom, ncp)
    return min(1.0, max(0.0, found))


def seeds_needed(
    difference: float, sx: float, sy: float, alpha: float, wanted: float = 0.8
) -> int | None:
    """The fewest runs for each side with which :func:`power` reaches what is wanted.

    Returns:
        None if it takes more than MOST_SEEDS, as with a difference of 0.
    """

    def enough(runs: int) -> bool:
        return power(difference, sx, sy, runs, runs, alpha) >= wanted

    fewest = bisect_left(range(MOST_SEEDS + 1), True, lo=2, key=enough)
    return fewest if fewest <= MOST_SEEDS else None


def spread_limit(freedom: int, confidence: float = 0.8) -> float:
    """The factor from an observed standard deviation to its upper confidence limit.

    A spread seen in few runs is often too small, and the number of seeds that follows from it too;
    Browne 1995 plans with the upper 80 % limit.
    """
    return math.sqrt(freedom / float(scipy_stats().chi2.ppf(1 - confidence, freedom)))


def detectable(sx: float, sy: float, n: int, m: int, alpha: float, wanted: float = 0.8) -> float:
    """The smallest true difference that :func:`power` finds often enough with so many runs."""
    from scipy.optimize import brentq

    error, _ = _welch_error(sx, sy, n, m)
    if error == 0 or wanted <= alpha:
        return 0.0
    reach = error
    while power(reach, sx, sy, n, m, alpha) < wanted:
        reach *= 2
    return float(brentq(lambda d: power(d, sx, sy, n, m, alpha) - wanted, 0.0, reach))


def plan(
    x: Sequence[float], y: Sequence[float], alpha: float, relevant: float, wanted: float
) -> Planning:
    """What these runs can detect, and how many a next study needs.

    Args:
        x: scores of the baseline, 2 or more.
        y: likewise of the system.
        alpha: level of each test of the study.
        relevant: a difference that would matter.
        wanted: power.
    """
    sx, sy = spread(x), spread(y)
    limit = spread_limit(len(x) + len(y) - 2)
    return Planning(
        alpha=alpha,
        relevant=relevant,
        detectable=detectable(sx, sy, len(x), len(y), alpha, wanted),
        seeds_relevant=seeds_needed(relevant, sx, sy, alpha, wanted),
        seeds_cautious=seeds_needed(relevant, limit * sx, limit * sy, alpha, wanted),
    )


def _welch_error(sx: float, sy: float, n: int, m: int) -> tuple[float, float]:
    """Standard error of the difference, and Welch and Satterthwaite's degrees of freedom."""
    a, b = sx**2 / n, sy**2 / m
    if a + b == 0:
        return 0.0, float(n + m - 2)
    # Divided first: variances of tiny spreads would underflow when squared.
    share = a / (a + b)
    freedom = 1 / (share**2 / (n - 1) + (1 - share) ** 2 / (m - 1))
    return math.sqrt(a + b), freedom
