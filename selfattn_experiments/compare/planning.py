"""What a number of seeds can detect: planned before a study, not read off its outcome.

Power computed for the observed difference only restates the p-value (Hoenig and Heisey 2001); the
smallest difference that can be detected depends on the spread and the number of runs.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from selfattn.errors import UserError, needed

from .results import Planning
from .run_level import TOLERANCE, noncentral_t_cdf, sample_sd

MOST_SEEDS = 100_000
_NODES = 32  # 16 give five digits, also with 2 runs a side


def power(difference: float, sx: float, sy: float, n: int, m: int, alpha: float) -> float:
    """The share of experiments with normal scores in which Welch's test finds a true difference.

    Both sides' sums of squares together are chi-square distributed and independent of the share
    that the baseline has in them, on which the test's degrees of freedom depend. Given this share,
    which has a beta distribution, t is a multiple of a noncentral t; the power is the mean of its
    tails. The usual shortcut, degrees of freedom of the true spreads, promises 0.80 where 3 runs
    against 3 have 0.70.

    Args:
        difference: the true one.
        sx: standard deviation of the baseline's runs.
        sy: likewise of the system's.
        n: runs of the baseline, 2 or more.
        m: runs of the system, 2 or more.
        alpha: level of the two-sided test.
    """
    a, b = sx**2 / n, sy**2 / m
    if a + b == 0:
        return 1.0 if difference else alpha
    stats, freedom = needed("scipy.stats"), n + m - 2
    noncentrality = abs(difference) / math.sqrt(a + b)
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    share = stats.beta.ppf((nodes + 1) / 2, (n - 1) / 2, (m - 1) / 2)
    # The squared errors that the test estimates, in units of the true one and of all squares' mean.
    left = a / (a + b) * share * freedom / (n - 1)
    right = b / (a + b) * (1 - share) * freedom / (m - 1)
    both = left + right
    estimated = 1 / ((left / both) ** 2 / (n - 1) + (right / both) ** 2 / (m - 1))
    critical = stats.t.isf(alpha / 2, estimated) * np.sqrt(both)
    found = [
        1
        - noncentral_t_cdf(t, freedom, noncentrality)
        + noncentral_t_cdf(-t, freedom, noncentrality)
        for t in critical
    ]
    return min(1.0, max(0.0, float(weights @ found) / 2))


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


def spread_limit(sx: float, sy: float, n: int, m: int) -> float:
    """The factor from observed standard deviations to the upper 80 % limit of both together.

    A spread seen in few runs is often too small, and the number of seeds that follows from it too;
    Browne 1995 plans with this limit. For unequal spreads it is that of the sum of both
    variances, with Satterthwaite's (1946) degrees of freedom.
    """
    v, w = sx * sx, sy * sy
    if v + w == 0:
        return 1.0
    freedom = (v + w) ** 2 / (v * v / (n - 1) + w * w / (m - 1))
    return math.sqrt(freedom / float(needed("scipy.stats").chi2.ppf(0.2, freedom)))


def detectable(sx: float, sy: float, n: int, m: int, alpha: float, wanted: float = 0.8) -> float:
    """The smallest true difference that :func:`power` finds often enough with so many runs."""
    from scipy.optimize import brentq

    error = math.hypot(sx / math.sqrt(n), sy / math.sqrt(m))
    if error == 0 or power(0.0, sx, sy, n, m, alpha) >= wanted:
        return 0.0
    reach = error
    while power(reach, sx, sy, n, m, alpha) < wanted:
        reach *= 2
    return float(brentq(lambda d: power(d, sx, sy, n, m, alpha) - wanted, 0.0, reach))


def plan(
    x: Sequence[float], y: Sequence[float], alpha: float, relevant: float, wanted: float
) -> Planning | None:
    """What these runs can detect, and how many a next study needs; None if all score alike.

    Args:
        x: scores of the baseline, 2 or more.
        y: likewise of the system.
        alpha: level of each test of the study.
        relevant: a difference that would matter.
        wanted: power.

    Raises:
        UserError: if a score is not finite.
    """
    if not all(map(math.isfinite, [*x, *y])):
        raise UserError("a score is not a finite number, so nothing can be planned with it")
    sx, sy = sample_sd(x), sample_sd(y)
    if max(sx, sy) < TOLERANCE:
        return None
    limit = spread_limit(sx, sy, len(x), len(y))
    return Planning(
        alpha=alpha,
        relevant=relevant,
        detectable=detectable(sx, sy, len(x), len(y), alpha, wanted),
        seeds_relevant=seeds_needed(relevant, sx, sy, alpha, wanted),
        seeds_cautious=seeds_needed(relevant, limit * sx, limit * sy, alpha, wanted),
    )
