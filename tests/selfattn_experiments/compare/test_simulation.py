"""Under no difference, 5 % of comparisons come out below 0.05, but where theory says otherwise."""

import pytest

from selfattn_experiments.compare.simulation import (
    BOOTSTRAP,
    BOTH,
    COIN_PER_RUN,
    EQUIVALENCE,
    LOOKED,
    ORDER,
    PAIRED,
    PERMUTATION,
    RANDOMISATION,
    WELCH,
    Scenario,
    simulate,
)

stats = pytest.importorskip("scipy.stats")
REPETITIONS = 300


def rates_of(scenario):
    rates = simulate([scenario], REPETITIONS, sentences=100, samples=99, seed=3)
    return {rate.test: rate for rate in rates}


def chance(rate, share):
    """Probability of so many wrong verdicts or more extreme if ``share`` were the true rate."""
    return stats.binomtest(rate.wrong, rate.pairs, share).pvalue


SOUND = [
    Scenario("seeds differ", (5, 5), (WELCH, PAIRED, PERMUTATION, EQUIVALENCE), seed_sd=0.1),
    Scenario("one spreads threefold", (5, 5), (WELCH, EQUIVALENCE), system_sd=0.15),
    Scenario("runs of one quality", (1, 1), (BOOTSTRAP, RANDOMISATION)),
    Scenario("runs of one quality", (4, 2), (BOOTSTRAP, RANDOMISATION)),
    Scenario("good at different sentences", (3, 3), (BOOTSTRAP, RANDOMISATION), own_sd=0.8),
]


@pytest.mark.parametrize("scenario", SOUND, ids=lambda w: f"{w.what}, {w.runs[0]} and {w.runs[1]}")
def test_sound_tests_are_wrong_in_5_percent(scenario):
    for rate in rates_of(scenario).values():
        # 0.1 % of right programs would fail here; one that is wrong in 10 % nearly always does.
        assert chance(rate, 0.05) > 1e-3, f"{rate.test}: {rate.share:.1%}"


def test_one_run_each_finds_differences_between_seeds():
    for rate in rates_of(Scenario("", (1, 1), (BOOTSTRAP, RANDOMISATION), seed_sd=0.1)).values():
        assert rate.share > 0.09 and chance(rate, 0.05) < 1e-3


def test_a_coin_for_each_run_is_wrong_too_often():
    found = rates_of(Scenario("", (3, 3), (COIN_PER_RUN,), own_sd=0.8))[COIN_PER_RUN]
    assert found.share > 0.09 and chance(found, 0.05) < 1e-3


def test_a_tail_of_bad_seeds_on_one_side_looks_equivalent_too_often():
    found = rates_of(Scenario("", (5, 5), (EQUIVALENCE,), seed_sd=0.08, system_sd=0.3, skew=True))
    rate = found[EQUIVALENCE]
    assert rate.share > 0.08 and chance(rate, 0.05) < 1e-3
    assert 0 < rate.strict < rate.wrong
    assert 2 * rate.spreads[0] < rate.spreads[1] < 4 * rate.spreads[0]


def test_the_spread_is_that_of_the_runs_of_one_system():
    """Systems that are good at different sentences differ on a test set, their runs do not more."""
    (same,), (apart,) = (
        rates_of(Scenario("", (3, 3), (RANDOMISATION,), own_sd=sd)).values() for sd in (0.0, 2.0)
    )
    assert apart.spreads[0] < same.spreads[0]  # both systems together: nearly twice as much


def test_looks_and_tests_that_are_too_sure_of_themselves():
    found = rates_of(Scenario("", (5, 5), (WELCH, LOOKED, ORDER, BOTH), seed_sd=0.1))
    assert found[LOOKED].wrong > found[WELCH].wrong
    assert found[ORDER].share > 0.08 and found[ORDER].strict is None
    assert found[BOTH].share < 0.09
