"""Tests in which a run is one observation: what differences between training seeds allow to say.

Welch's t-test is the primary one, fixed in advance. SciPy does the distributions; scores of the
baseline are called x, those of the system y, and a difference is mean(y) - mean(x).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import UserError

# 10 against 10 runs are 184,756 ways to deal them out: all are tried up to this number.
MOST_DEALS = 200_000
MOST_SEEDS = 100_000
# Differences of scores that differ by less came from the order of additions.
TOLERANCE = 1e-9
Interval = tuple[float, float]


@dataclass(frozen=True)
class TTest:
    """The outcome of a test.

    Args:
        p: two-sided.
        interval: of the difference.
    """

    p: float
    interval: Interval


@dataclass(frozen=True)
class Permutation:
    """The outcome of a permutation test.

    Args:
        p: two-sided.
        smallest: the smallest p that so many runs can reach.
        exact: every deal was tried; else a random sample of MOST_DEALS.
    """

    p: float
    smallest: float
    exact: bool


@dataclass(frozen=True)
class Effect:
    """Hedges' g, a difference in standard deviations.

    Args:
        g: corrected for small samples.
        interval: of the effect in the population.
    """

    g: float
    interval: Interval


def scipy_stats() -> Any:
    """The module scipy.stats.

    Raises:
        UserError: if SciPy is not installed.
    """
    try:
        import scipy.stats
    except ImportError:
        raise UserError("scipy is not installed: install it with `pip install scipy`") from None
    return scipy.stats


def mean_interval(scores: Sequence[float], level: float = 0.95) -> Interval | None:
    """Student's interval of the mean over seeds; None for one run."""
    if len(scores) < 2:
        return None
    half = scipy_stats().t.ppf((1 + level) / 2, len(scores) - 1)
    half *= spread(scores) / math.sqrt(len(scores))
    return float(np.mean(scores) - half), float(np.mean(scores) + half)


def welch(x: Sequence[float], y: Sequence[float], level: float = 0.95) -> TTest | None:
    """Welch's t-test (1947) of two means, variances unequal.

    Returns:
        None if a side has one run, or if no scores spread but the means differ.
    """
    if min(len(x), len(y)) < 2:
        return None
    difference = _difference(x, y)
    error, freedom = _welch_error(spread(x), spread(y), len(x), len(y))
    return _t_test(difference, error, freedom, level)


def paired(
    x: Mapping[str, float], y: Mapping[str, float], level: float = 0.95
) -> tuple[TTest | None, int]:
    """Paired t-test of the seeds that both sides have.

    Args:
        x: seed to score of the baseline.
        y: likewise of the system.
        level: of the interval.

    Returns:
        The outcome, None with fewer than two pairs; and the number of pairs.
    """
    seeds = sorted(x.keys() & y.keys())
    if len(seeds) < 2:
        return None, len(seeds)
    differences = np.array([y[seed] - x[seed] for seed in seeds])
    error = float(np.std(differences, ddof=1)) / math.sqrt(len(seeds))
    return _t_test(float(differences.mean()), error, len(seeds) - 1, level), len(seeds)


def _t_test(difference: float, error: float, freedom: float, level: float) -> TTest | None:
    if error < TOLERANCE:  # not one score differs from another, or only by rounding
        return TTest(1.0, (0.0, 0.0)) if abs(difference) < TOLERANCE else None
    t = scipy_stats().t
    half = float(t.ppf((1 + level) / 2, freedom)) * error
    p = min(1.0, float(2 * t.sf(abs(difference) / error, freedom)))
    return TTest(p, (difference - half, difference + half))


def _welch_error(sx: float, sy: float, n: int, m: int) -> tuple[float, float]:
    """Standard error of the difference, and Welch and Satterthwaite's degrees of freedom."""
    a, b = sx**2 / n, sy**2 / m
    if a + b == 0:
        return 0.0, float(n + m - 2)
    # Divided first: variances of tiny spreads would underflow when squared.
    share = a / (a + b)
    freedom = 1 / (share**2 / (n - 1) + (1 - share) ** 2 / (m - 1))
    return math.sqrt(a + b), freedom


def permutation(x: Sequence[float], y: Sequence[float], seed: int = 1) -> Permutation:
    """Permutation test: all runs dealt out anew to the two sides (Fisher 1935).

    The statistic is the absolute difference of the means. With equal sides each deal has a mirror
    image of the same difference, so the smallest p is 2 / C(n + m, n), else 1 / C(n + m, n).

    Args:
        x: scores of the baseline.
        y: scores of the system.
        seed: of the sample that is drawn if there are more than MOST_DEALS.
    """
    pooled = np.array([*x, *y])
    n, total = len(x), len(x) + len(y)
    deals = math.comb(total, n)
    observed = abs(_difference(x, y)) - TOLERANCE
    if deals <= MOST_DEALS:
        chosen = np.fromiter(
            itertools.chain.from_iterable(itertools.combinations(range(total), n)), dtype=np.intp
        ).reshape(deals, n)
        hits = int(np.count_nonzero(_deal_differences(pooled, chosen) >= observed))
        p, exact = hits / deals, True
    else:
        rng = np.random.default_rng(seed)
        chosen = np.argsort(rng.random((MOST_DEALS, total)), axis=1)[:, :n]
        hits = int(np.count_nonzero(_deal_differences(pooled, chosen) >= observed))
        # The observed deal is one of them: without it p could be 0.
        p, exact = (hits + 1) / (MOST_DEALS + 1), False
    smallest = (2 if n == len(y) else 1) / deals
    return Permutation(p, smallest if exact else max(smallest, 1 / (MOST_DEALS + 1)), exact)


def _deal_differences(pooled: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    sums = pooled[chosen].sum(axis=1)
    n = chosen.shape[1]
    return np.abs((pooled.sum() - sums) / (len(pooled) - n) - sums / n)


def hedges(x: Sequence[float], y: Sequence[float], level: float = 0.95) -> Effect | None:
    """Hedges' g (1981) with the exact interval from the noncentral t distribution.

    Both rest on equal variances. None with fewer than two runs a side or without any spread.
    """
    n, m = len(x), len(y)
    if min(n, m) < 2:
        return None
    freedom = n + m - 2
    pooled = math.sqrt(((n - 1) * np.var(x, ddof=1) + (m - 1) * np.var(y, ddof=1)) / freedom)
    if pooled < TOLERANCE:
        return None
    d = _difference(x, y) / pooled
    # Hedges 1981, equation 6e: the exact factor that takes the bias out.
    correction = math.exp(
        math.lgamma(freedom / 2) - math.lgamma((freedom - 1) / 2) - 0.5 * math.log(freedom / 2)
    )
    scale = math.sqrt(1 / n + 1 / m)
    low = _noncentrality(d / scale, freedom, (1 + level) / 2) * scale
    high = _noncentrality(d / scale, freedom, (1 - level) / 2) * scale
    return Effect(d * correction, (low, high))


def _noncentrality(t: float, freedom: float, share: float) -> float:
    """The noncentrality at which a t value stands at this quantile."""
    from scipy.optimize import brentq

    reach = 10.0 + abs(t)
    return float(brentq(lambda c: _below(t, freedom, c) - share, t - reach, t + reach))


def _below(t: float, freedom: float, noncentrality: float) -> float:
    """The probability of a smaller value under the noncentral t distribution."""
    found = float(scipy_stats().nct.cdf(t, freedom, noncentrality))
    # SciPy gives NaN where the probability leaves the range of floats.
    return float(noncentrality < t) if math.isnan(found) else found


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
    found = 1 - _below(critical, freedom, ncp) + _below(-critical, freedom, ncp)
    return min(1.0, max(0.0, found))


def seeds_needed(
    difference: float, sx: float, sy: float, alpha: float, wanted: float = 0.8
) -> int | None:
    """The fewest runs for each side with which :func:`power` reaches what is wanted.

    Returns:
        None if it takes more than MOST_SEEDS, as with a difference of 0.
    """
    low, high = 1, 2
    while high < MOST_SEEDS and power(difference, sx, sy, high, high, alpha) < wanted:
        low, high = high, 2 * high
    if high >= MOST_SEEDS:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        enough = power(difference, sx, sy, middle, middle, alpha) >= wanted
        low, high = (low, middle) if enough else (middle, high)
    return high


def spread_limit(freedom: int, confidence: float = 0.8) -> float:
    """The factor from an observed standard deviation to its upper confidence limit.

    A spread seen in few runs is often too small, and the number of seeds that follows from it too;
    Browne 1995 plans with the upper 80 % limit.
    """
    return math.sqrt(freedom / float(scipy_stats().chi2.ppf(1 - confidence, freedom)))


def spread(scores: Sequence[float]) -> float:
    """The standard deviation of runs, from their number less one."""
    return float(np.std(scores, ddof=1))


def _difference(x: Sequence[float], y: Sequence[float]) -> float:
    return float(np.mean(y) - np.mean(x))
