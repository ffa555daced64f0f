"""Each test over runs against SciPy, against enumeration, or against published numbers."""

import itertools
import math

import numpy as np
import pytest

from selfattn_experiments.compare import run_level
from selfattn_experiments.compare.run_level import (
    equivalence,
    hedges,
    mean_interval,
    paired,
    permutation,
    stochastic_order,
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
def test_equivalence_is_the_90_percent_interval_within_the_margin(x, y):
    # Two one-sided tests at 5 % and the 90 % interval say the same (Schuirmann 1987).
    low, high = welch(x, y, 0.9).interval
    edge = max(abs(low), abs(high))
    assert equivalence(x, y, edge) == pytest.approx(0.05, rel=1e-9)
    assert equivalence(x, y, 1.01 * edge) < 0.05 < equivalence(x, y, 0.99 * edge)
    assert equivalence(y, x, edge) == pytest.approx(0.05, rel=1e-9)


def test_equivalence_needs_a_spread():
    assert equivalence([37.0, 37.0], [37.0, 37.0], 0.5) is None
    assert equivalence([37.0], Y, 0.5) is None
    assert equivalence(X, [score + 0.5 for score in X], 0.5) == pytest.approx(0.5)


def test_almost_stochastic_order_by_hand():
    # Quantiles 1, 2, 6 and 3, 3, 3: squared gaps 4, 1 and 9, of which 9 is on the wrong side.
    found = stochastic_order([3.0, 3.0, 3.0], [2.0, 1.0, 6.0], samples=10)
    assert found.violation == pytest.approx(5 / 14)  # both means are 3: the second lies lower
    # Sides of two and three runs: gaps 1, 1, 2, 2 of widths 1/3, 1/6, 1/6, 1/3.
    found = stochastic_order([0.0, 4.0], [1.0, 2.0, 6.0])
    assert found.violation == pytest.approx(
        (1 / 6 * 4) / (1 / 3 + 1 / 6 * 4 + 1 / 6 * 4 + 1 / 3 * 4)
    )
    assert found.limit > found.violation


def test_almost_stochastic_order_at_its_ends():
    apart = stochastic_order([1.0, 2.0, 3.0], [4.0, 5.0])
    assert (apart.violation, apart.limit) == (0, 0)
    assert stochastic_order([4.0, 5.0], [1.0, 2.0, 3.0]) == apart
    itself = stochastic_order(X, X)
    assert itself.violation == 0.5 and itself.limit > 0.5
    assert stochastic_order([1.0], Y) is None


@pytest.mark.parametrize(("x", "y"), SIDES)
def test_permutation_is_every_one_written_out(x, y):
    both = [*x, *y]
    hits = permutations = 0
    observed = abs(np.mean(y) - np.mean(x))
    for chosen in itertools.combinations(range(len(both)), len(x)):
        rest = [both[i] for i in range(len(both)) if i not in chosen]
        hits += abs(np.mean(rest) - np.mean([both[i] for i in chosen])) >= observed - 1e-9
        permutations += 1
    found = permutation(x, y)
    assert found.exact and found.p == hits / permutations
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


def test_too_many_permutations_are_sampled():
    rng = np.random.default_rng(0)
    x, y = list(rng.normal(0, 1, 14)), list(rng.normal(0.7, 1, 14))
    found = permutation(x, y)
    assert not found.exact and found.smallest == 1 / (run_level.MOST_PERMUTATIONS + 1)
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


@pytest.mark.parametrize("scale", [1.0, 1e-2, 1e-4, 1e-6])
def test_effects_of_any_size_have_a_finite_interval(scale):
    x, y = [0.1 * scale, 0.5 * scale, -0.7 * scale], [1 - 0.2 * scale, 1.0, 1 + 0.4 * scale]
    for sides in ((x, y), (y, x), ([0.0, scale], [1.0, 1 + 2 * scale])):
        effect = hedges(*sides)
        assert math.isfinite(effect.g)
        assert effect.interval[0] < effect.g < effect.interval[1]
        if scale < 1e-3:  # all that is unknown then is the spread, and chi-squared its share
            shares = stats.chi2.ppf([0.025, 0.975], sum(map(len, sides)) - 2)
            low, high = sorted(map(abs, effect.interval))
            assert high / low == pytest.approx(math.sqrt(shares[1] / shares[0]), rel=1e-3)


def test_interval_of_a_mean():
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


def test_rounding_is_no_spread():
    noise = [37.0, 37.0 + 1e-12, 37.0 - 1e-12]
    assert welch(noise, noise).p == paired(named(noise), named(noise))[0].p == 1
    assert welch(noise, [38.0, 38.0]) is None


def test_swapping_the_sides_turns_signs_only():
    there, back = welch(X, Y), welch(Y, X)
    assert there.p == pytest.approx(back.p, rel=1e-12)
    assert there.interval == pytest.approx((-back.interval[1], -back.interval[0]))
    assert permutation(X, Y).p == permutation(Y, X).p
    assert hedges(X, Y).g == pytest.approx(-hedges(Y, X).g)
    low, high = hedges(Y, X).interval
    assert hedges(X, Y).interval == pytest.approx((-high, -low), rel=1e-6)


def test_a_sampled_permutation_test_is_never_certain():
    found = run_level.permutation(list(range(12)), list(range(100, 112)))
    assert not found.exact and found.p == 1 / (run_level.MOST_PERMUTATIONS + 1)
    assert run_level.permutation(list(range(10)), list(range(10, 20))).exact
