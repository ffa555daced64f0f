"""Each test over runs against SciPy, against enumeration, or against published numbers."""

import itertools
import math

import numpy as np
import pytest

from selfattn.compare import run_level
from selfattn.compare.run_level import (
    hedges,
    mean_interval,
    paired,
    permutation,
    power,
    seeds_needed,
    spread_limit,
    welch,
)

stats = pytest.importorskip("scipy.stats")

X = [37.7, 37.5, 38.1, 37.9, 37.6]
Y = [38.3, 38.9, 37.8, 38.6, 38.4]
RNG = np.random.default_rng(3)
SIDES = [(X, Y), (X, Y[:3]), (list(RNG.normal(20, 1, 4)), list(RNG.normal(22, 3, 7)))]


def named(scores):
    return {str(i): score for i, score in enumerate(scores)}


@pytest.mark.parametrize(("x", "y"), SIDES)
def test_welch_is_scipys(x, y):
    expected = stats.ttest_ind(y, x, equal_var=False)
    found = welch(x, y)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-12)
    limits = expected.confidence_interval(0.95)
    assert found.interval == pytest.approx((limits.low, limits.high), rel=1e-12)


def test_paired_is_scipys_and_takes_only_common_seeds():
    x, y = named(X), {**named(Y[:4]), "9": 50.0}
    found, pairs = paired(x, y)
    expected = stats.ttest_rel(Y[:4], X[:4])
    assert pairs == 4
    assert found.p == pytest.approx(expected.pvalue, rel=1e-12)
    limits = expected.confidence_interval(0.95)
    assert found.interval == pytest.approx((limits.low, limits.high), rel=1e-12)
    assert paired({"1": 3.0}, {"1": 4.0, "2": 3.0}) == (None, 1)


@pytest.mark.parametrize(("x", "y"), SIDES)
def test_permutation_is_every_deal_written_out(x, y):
    both = [*x, *y]
    hits = deals = 0
    observed = abs(np.mean(y) - np.mean(x))
    for chosen in itertools.combinations(range(len(both)), len(x)):
        rest = [both[i] for i in range(len(both)) if i not in chosen]
        hits += abs(np.mean(rest) - np.mean([both[i] for i in chosen])) >= observed - 1e-9
        deals += 1
    found = permutation(x, y)
    assert found.exact and found.p == hits / deals
    assert found.smallest <= found.p


def test_permutation_is_scipys_for_equal_sides():
    expected = stats.permutation_test(
        (Y, X), lambda a, b: np.mean(a) - np.mean(b), n_resamples=np.inf
    )
    assert permutation(X, Y).p == pytest.approx(expected.pvalue)


def test_smallest_p_is_reached_by_sides_that_do_not_overlap():
    for n, m in ((3, 3), (5, 5), (3, 5), (1, 4)):
        found = permutation(list(range(n)), list(range(100, 100 + m)))
        assert found.p == found.smallest == (2 if n == m else 1) / math.comb(n + m, n)


def test_too_many_deals_are_sampled():
    rng = np.random.default_rng(0)
    x, y = list(rng.normal(0, 1, 14)), list(rng.normal(0.7, 1, 14))
    found = permutation(x, y)
    assert not found.exact and found.smallest == 1 / (run_level.MOST_DEALS + 1)
    # Student's t approximates it at this size.
    assert found.p == pytest.approx(stats.ttest_ind(x, y).pvalue, rel=0.1)


def test_hedges_g_against_its_definition():
    d = (np.mean(Y) - np.mean(X)) / math.sqrt((np.var(X, ddof=1) + np.var(Y, ddof=1)) / 2)
    found = hedges(X, Y)
    # The usual approximation of the correction for 8 degrees of freedom.
    assert found.g == pytest.approx(d * (1 - 3 / (4 * 8 - 1)), rel=2e-3)
    low, high = found.interval
    t = d / math.sqrt(2 / 5)
    for limit, share in ((low, 0.975), (high, 0.025)):
        assert stats.nct.cdf(t, 8, limit / math.sqrt(2 / 5)) == pytest.approx(share, abs=1e-6)


def test_hedges_interval_holds_the_true_effect_in_95_percent():
    rng = np.random.default_rng(5)
    held = 0
    for _ in range(200):
        low, high = hedges(rng.normal(0, 1, 4), rng.normal(1.2, 1, 5)).interval
        held += low <= 1.2 <= high
    assert stats.binomtest(held, 200, 0.95).pvalue > 1e-3


@pytest.mark.parametrize("scale", [1.0, 1e-2, 1e-4])
def test_effects_of_any_size_have_a_finite_interval(scale):
    x, y = [0.1 * scale, 0.5 * scale, -0.7 * scale], [1 - 0.2 * scale, 1.0, 1 + 0.4 * scale]
    for sides in ((x, y), (y, x), ([0.0, scale], [1.0, 1 + 2 * scale])):
        effect = hedges(*sides)
        assert math.isfinite(effect.g)
        assert effect.interval[0] < effect.g < effect.interval[1]
        assert 0 <= power(1.0, scale, scale, 2, 3, 0.01) <= 1


def test_power_of_textbooks_and_of_simulated_experiments():
    # Cohen 1988: 64 a side find half a standard deviation in 80 %.
    assert power(0.5, 1, 1, 64, 64, 0.05) == pytest.approx(0.801, abs=5e-4)
    assert seeds_needed(0.5, 1, 1, 0.05) == 64
    assert power(0.0, 1, 1, 5, 5, 0.05) == pytest.approx(0.05)
    rng = np.random.default_rng(6)
    x, y = rng.normal(0, 0.3, (20_000, 5)), rng.normal(0.6, 0.5, (20_000, 4))
    found = (stats.ttest_ind(x, y, axis=1, equal_var=False).pvalue < 0.05).mean()
    assert power(0.6, 0.3, 0.5, 5, 4, 0.05) == pytest.approx(found, abs=0.02)


def test_seeds_needed_is_the_first_number_that_is_enough():
    for difference, sx, sy, alpha in ((0.4, 0.3, 0.5, 0.05), (0.2, 0.5, 0.2, 0.05 / 6)):
        enough = seeds_needed(difference, sx, sy, alpha)
        assert power(difference, sx, sy, enough, enough, alpha) >= 0.8
        assert power(difference, sx, sy, enough - 1, enough - 1, alpha) < 0.8
    assert seeds_needed(50, 0.1, 0.1, 0.05) == 2
    assert seeds_needed(0, 1, 1, 0.05) is None
    assert seeds_needed(0.1, 0, 0, 0.05) == 2


def test_intervals_of_spread_and_mean():
    # NIST handbook's chi-square table: the 0.20 quantile with 8 degrees of freedom is 4.594.
    assert spread_limit(8) == pytest.approx(math.sqrt(8 / 4.594), rel=1e-4)
    expected = stats.t.interval(0.95, 4, np.mean(X), stats.sem(X))
    assert mean_interval(X) == pytest.approx(expected)
    assert mean_interval([1.0]) is None


def test_a_system_against_itself_has_p_1():
    assert welch(X, X).p == paired(named(X), named(X))[0].p == permutation(X, X).p == 1
    assert hedges(X, X).g == 0
    same = [37.0, 37.0, 37.0]
    assert welch(same, same).p == permutation(same, same).p == 1
    assert hedges(same, same) is None


def test_no_spread_or_one_run_is_no_test():
    assert welch([37.0, 37.0], [38.0, 38.0]) is None
    assert welch([37.0], Y) is None and hedges([37.0], Y) is None
    assert welch([37.0, 37.0], Y[:2]) is not None


def test_swapping_the_sides_turns_signs_only():
    there, back = welch(X, Y), welch(Y, X)
    assert there.p == pytest.approx(back.p, rel=1e-12)
    assert there.interval == pytest.approx((-back.interval[1], -back.interval[0]))
    assert permutation(X, Y).p == permutation(Y, X).p
    assert hedges(X, Y).g == pytest.approx(-hedges(Y, X).g)
    low, high = hedges(Y, X).interval
    assert hedges(X, Y).interval == pytest.approx((-high, -low), rel=1e-6)
