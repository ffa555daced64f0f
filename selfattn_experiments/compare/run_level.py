"""Tests in which a run is one observation: what differences between training seeds allow to say.

Welch's t-test is the primary one, fixed in advance. SciPy does the distributions; scores of the
baseline are called x, those of the system y, and a difference is mean(y) - mean(x).
"""

import itertools
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np

from selfattn.errors import needed

# Labels of 10 against 10 runs have 184,756 permutations; up to this number all are tried.
MOST_PERMUTATIONS = 200_000
# Differences of scores that differ by less came from the order of additions.
TOLERANCE = 1e-9
# From this noncentrality on, the numerator's noise changes `noncentral_t_cdf` by less than 1e-6.
_LARGE = 1e4
Interval = tuple[float, float]


@final
@dataclass(frozen=True)
class TTest:
    """The outcome of a test."""

    p: float  # two-sided
    interval: Interval  # of the difference


@dataclass(frozen=True)
class Permutation:
    """The outcome of a permutation test."""

    p: float  # two-sided
    smallest: float  # the smallest p that so many runs can reach
    exact: bool  # every permutation was tried; else a random sample of MOST_PERMUTATIONS


@final
@dataclass(frozen=True)
class Effect:
    """Hedges' g, a difference in standard deviations."""

    g: float  # corrected for small samples
    interval: Interval  # of the effect in the population


@final
@dataclass(frozen=True)
class Order:
    """How far the runs of the side with the higher mean are from lying above the other side's."""

    # Epsilon of the runs at hand: 0 if each quantile lies above, 0.5 without order.
    violation: float
    limit: float  # upper 95 % limit of epsilon


def mean_interval(scores: Sequence[float]) -> Interval | None:
    """Student's 95 % interval of the mean over seeds; None for one run."""
    if len(scores) < 2:
        return None
    if sample_sd(scores) < TOLERANCE:
        return float(np.mean(scores)), float(np.mean(scores))
    return _limits(_t_test("ttest_1samp", scores, 0.0))


def welch(x: Sequence[float], y: Sequence[float], level: float = 0.95) -> TTest | None:
    """Welch's t-test (1947) of two means, variances unequal.

    Returns:
        None if a side has one run, or if no scores spread but the means differ.
    """
    if min(len(x), len(y)) < 2:
        return None
    if max(sample_sd(x), sample_sd(y)) < TOLERANCE:
        return _no_spread(_difference(x, y))
    found = _t_test("ttest_ind", y, x, equal_var=False)
    return TTest(float(found.pvalue), _limits(found, level))


def paired(x: Mapping[str, float], y: Mapping[str, float]) -> tuple[TTest | None, int]:
    """Paired t-test of the seeds that both sides have, with the 95 % interval.

    Args:
        x: seed to score of the baseline.
        y: likewise of the system.

    Returns:
        The outcome, None with fewer than two pairs; and the number of pairs.
    """
    seeds = sorted(x.keys() & y.keys())
    if len(seeds) < 2:
        return None, len(seeds)
    differences = [y[seed] - x[seed] for seed in seeds]
    if sample_sd(differences) < TOLERANCE:
        return _no_spread(float(np.mean(differences))), len(seeds)
    found = _t_test("ttest_1samp", differences, 0.0)
    return TTest(float(found.pvalue), _limits(found)), len(seeds)


def equivalence(x: Sequence[float], y: Sequence[float], margin: float) -> float | None:
    """Two one-sided Welch tests (Schuirmann 1987): do the means differ by less than the margin?

    Returns:
        The larger of the two p-values; None without two runs a side or without any spread.
    """
    if min(len(x), len(y)) < 2 or max(sample_sd(x), sample_sd(y)) < TOLERANCE:
        return None
    above = _t_test("ttest_ind", np.add(y, margin), x, equal_var=False, alternative="greater")
    below = _t_test("ttest_ind", np.subtract(y, margin), x, equal_var=False, alternative="less")
    return float(max(above.pvalue, below.pvalue))


def _t_test(name: str, *sides: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        # SciPy fears for the digits of a side whose runs score alike: they have nothing to lose.
        warnings.simplefilter("ignore", RuntimeWarning)
        return getattr(needed("scipy.stats"), name)(*sides, **options)


def _limits(found: Any, level: float = 0.95) -> Interval:
    limits = found.confidence_interval(level)
    return float(limits.low), float(limits.high)


def _no_spread(difference: float) -> TTest | None:
    """Not one score differs from another on its side, or only by rounding."""
    return TTest(1.0, (0.0, 0.0)) if abs(difference) < TOLERANCE else None


def permutation(x: Sequence[float], y: Sequence[float], seed: int = 1) -> Permutation:
    """Permutation test: the labels of all runs permuted (Fisher 1935).

    The statistic is the absolute difference of the means. With equal sides each permutation has a
    mirror image of the same difference, so the smallest p is 2 / C(n + m, n), else 1 / C(n + m, n).

    Args:
        x: scores of the baseline.
        y: scores of the system.
        seed: of the sample that is drawn if there are more than MOST_PERMUTATIONS.
    """
    pooled = np.array([*x, *y])
    n, total = len(x), len(x) + len(y)
    permutations = math.comb(total, n)
    observed = abs(_difference(x, y)) - TOLERANCE
    exact = permutations <= MOST_PERMUTATIONS
    if exact:
        chosen = np.fromiter(
            itertools.chain.from_iterable(itertools.combinations(range(total), n)), dtype=np.intp
        ).reshape(permutations, n)
    else:
        rng = np.random.default_rng(seed)
        chosen = np.argsort(rng.random((MOST_PERMUTATIONS, total)), axis=1)[:, :n]
    sums = pooled[chosen].sum(axis=1)
    differences = np.abs((pooled.sum() - sums) / (total - n) - sums / n)
    hits = int(np.count_nonzero(differences >= observed))
    # Of a sample, the observed permutation is one, too: without it p could be 0.
    p = hits / permutations if exact else (hits + 1) / (MOST_PERMUTATIONS + 1)
    smallest = (2 if n == len(y) else 1) / permutations
    return Permutation(p, smallest if exact else max(smallest, 1 / (MOST_PERMUTATIONS + 1)), exact)


def hedges(x: Sequence[float], y: Sequence[float]) -> Effect | None:
    """Hedges' g (1981) with the exact 95 % interval from the noncentral t distribution.

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
    low = _noncentrality(d / scale, freedom, 0.975) * scale
    high = _noncentrality(d / scale, freedom, 0.025) * scale
    return Effect(d * correction, (low, high))


def _noncentrality(t: float, freedom: float, share: float) -> float:
    """The noncentrality at which a t value stands at this quantile."""
    from scipy.optimize import brentq

    reach = 10.0 + abs(t)
    return float(brentq(lambda c: noncentral_t_cdf(t, freedom, c) - share, t - reach, t + reach))


def noncentral_t_cdf(t: float, freedom: float, noncentrality: float) -> float:
    """The probability of a smaller value under the noncentral t distribution."""
    stats = needed("scipy.stats")
    # SciPy takes seconds, then gives NaN where numbers are large. There (Z + c) / S < t is c < t S:
    # Z is nothing.
    if abs(noncentrality) < _LARGE:
        found = float(stats.nct.cdf(t, freedom, noncentrality))
        if not math.isnan(found):
            return found
    if t * noncentrality <= 0:
        return float(noncentrality < t)
    squared = freedom * (noncentrality / t) ** 2
    return float((stats.chi2.sf if t > 0 else stats.chi2.cdf)(squared, freedom))


def stochastic_order(
    x: Sequence[float], y: Sequence[float], samples: int = 1000, seed: int = 1
) -> Order | None:
    """Almost stochastic order (del Barrio et al. 2018, Dror et al. 2019); None with one run a side.

    Epsilon is the share of the squared Wasserstein distance of both samples that lies where the
    quantiles of the side with the higher mean are the lower ones.

    Differs: the package deepsig, after Dror et al., estimates the spread of epsilon from bootstrap
    samples of 1,000 scores; these have as many as there are runs, as in del Barrio et al.
    """
    low, high = sorted((np.array(x), np.array(y)), key=np.mean)
    n, m = len(low), len(high)
    if min(n, m) < 2:
        return None
    rng = np.random.default_rng(seed)
    violation = float(_violation(low, high))
    drawn = _violation(
        low[rng.integers(n, size=(samples, n))], high[rng.integers(m, size=(samples, m))]
    )
    # The factors sqrt(nm / (n + m)) of the statistic and of its limit cancel.
    limit = violation + float(needed("scipy.stats").norm.ppf(0.95)) * float(np.std(drawn))
    return Order(violation, min(1.0, limit))


def _violation(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Epsilon of samples, shapes (..., n) and (..., m) to (...); 0.5 where all scores are equal."""
    n, m = low.shape[-1], high.shape[-1]
    # Both quantile functions are constant between these.
    edges = np.array(
        sorted({Fraction(i, n) for i in range(n + 1)} | {Fraction(i, m) for i in range(m + 1)})
    )
    middles, widths = (edges[1:] + edges[:-1]) / 2, np.diff(edges).astype(float)
    at_low, at_high = ([int(middle * k) for middle in middles] for k in (n, m))
    gap = np.sort(low)[..., at_low] - np.sort(high)[..., at_high]
    wrong = (widths * np.maximum(gap, 0.0) ** 2).sum(axis=-1)
    whole = (widths * gap**2).sum(axis=-1)
    share: np.ndarray = np.divide(
        wrong, whole, out=np.full_like(whole, 0.5), where=whole > TOLERANCE**2
    )
    return share


def sample_sd(scores: Sequence[float]) -> float:
    """The standard deviation of runs, from their number less one."""
    return float(np.std(scores, ddof=1))


def _difference(x: Sequence[float], y: Sequence[float]) -> float:
    return float(np.mean(y) - np.mean(x))
