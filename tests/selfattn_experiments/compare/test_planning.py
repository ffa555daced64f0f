"""Power and numbers of seeds against textbooks and simulated experiments."""

import math

import numpy as np
import pytest

from selfattn_experiments.compare import compare as module
from selfattn_experiments.compare.planning import (
    detectable,
    plan,
    power,
    seeds_needed,
    spread_limit,
)
from tests.selfattn_experiments.compare.made_up import found

stats = pytest.importorskip("scipy.stats")


def test_power_of_textbooks():
    # Cohen 1988: 64 a side find half a standard deviation in 80 %.
    assert power(0.5, 1, 1, 64, 64, 0.05) == pytest.approx(0.801, abs=5e-4)
    assert seeds_needed(0.5, 1, 1, 0.05) == 64


@pytest.mark.parametrize(
    ("difference", "sx", "sy", "n", "m"),
    [
        (0, 1, 1, 3, 3),
        (2.8, 1, 1, 3, 3),
        (9, 1, 1, 2, 2),
        (0.6, 0.3, 0.5, 5, 4),
        (1, 0.4, 0.1, 2, 5),
        (1, 0, 0.5, 4, 4),
    ],
)
def test_power_is_the_share_of_simulated_experiments_however_few_the_runs(difference, sx, sy, n, m):
    rng = np.random.default_rng(6)
    x, y = rng.normal(0, sx, (100_000, n)), rng.normal(difference, sy, (100_000, m))
    found = (stats.ttest_ind(x, y, axis=1, equal_var=False).pvalue < 0.05).mean()
    assert power(difference, sx, sy, n, m, 0.05) == pytest.approx(found, abs=0.005)


def test_seeds_needed_is_the_first_number_that_is_enough():
    for difference, sx, sy, alpha in ((0.4, 0.3, 0.5, 0.05), (0.2, 0.5, 0.2, 0.05 / 6)):
        enough = seeds_needed(difference, sx, sy, alpha)
        assert power(difference, sx, sy, enough, enough, alpha) >= 0.8
        assert power(difference, sx, sy, enough - 1, enough - 1, alpha) < 0.8
    assert seeds_needed(50, 0.1, 0.1, 0.05) == 2
    assert seeds_needed(0, 1, 1, 0.05) is None
    assert seeds_needed(0.1, 0, 0, 0.05) == 2


def test_detectable_is_where_power_reaches_what_is_wanted():
    for sx, sy, n, m, alpha in (
        (1, 1, 64, 64, 0.05),
        (0.14, 0.4, 5, 5, 0.01),
        (0.4, 0.1, 2, 5, 0.05),
    ):
        found = detectable(sx, sy, n, m, alpha)
        assert power(found, sx, sy, n, m, alpha) == pytest.approx(0.8, abs=1e-6)
    assert detectable(1, 1, 64, 64, 0.05) == pytest.approx(0.5, abs=1e-3)
    assert detectable(0, 0, 5, 5, 0.05) == 0
    assert detectable(1, 1, 5, 5, 0.05, wanted=0.01) == 0
    assert detectable(1, 1, 5, 5, 1e-6, wanted=0.999) > 5
    # There SciPy alone takes minutes; with about one degree of freedom it grows as 1 / alpha.
    assert 1e6 < detectable(0.3, 0.4, 2, 2, 1e-8) < 1e7
    # Where one side spreads more, Welch's test finds a difference of 0 in more than alpha.
    assert power(0, 0.05, 0.19, 5, 5, 0.05) > 0.053
    assert detectable(0.05, 0.19, 5, 5, 0.05, wanted=0.052) == 0


def test_a_plan_does_not_depend_on_the_difference_that_was_seen():
    x, y = [34.5, 34.8, 34.6], [36.2, 37.1, 37.0, 36.5]
    near = plan(x, y, 0.025, 0.5, 0.8)
    assert near == plan(x, [score + 8 for score in y], 0.025, 0.5, 0.8)
    assert near.seeds_relevant < near.seeds_cautious
    assert plan([34.5] * 3, [36.2] * 3, 0.025, 0.5, 0.8) is None


@pytest.mark.parametrize("scale", [1.0, 1e-2, 1e-4])
def test_power_of_any_spread_is_a_share(scale):
    assert 0 <= power(1.0, scale, scale, 2, 3, 0.01) <= 1


def test_the_upper_limit_of_a_spread():
    # NIST handbook's chi-square table: the 0.20 quantile with 8 degrees of freedom is 4.594.
    assert spread_limit(2.0, 2.0, 5, 5) == pytest.approx(math.sqrt(8 / 4.594), rel=1e-4)
    # Only one side spreads: its own four degrees of freedom, with the quantile 1.649.
    assert spread_limit(0, 0.3, 8, 5) == pytest.approx(math.sqrt(4 / 1.649), rel=1e-4)
    assert spread_limit(0, 0, 8, 5) == 1


def test_the_upper_limit_holds_in_four_of_five_studies():
    rng = np.random.default_rng(1)
    x, y = rng.normal(0, 0.1, (4000, 8)), rng.normal(0, 0.5, (4000, 4))
    spreads = np.stack([x.std(1, ddof=1), y.std(1, ddof=1)], 1)
    limits = [spread_limit(sx, sy, 8, 4) * math.hypot(sx, sy) for sx, sy in spreads]
    assert 0.75 < np.mean(np.array(limits) > math.hypot(0.1, 0.5)) < 0.85


def test_the_power_to_find_nothing_is_the_level():
    assert power(0, 0, 0, 3, 3, 0.05) == 0.05


@pytest.mark.usefixtures("folder")
def test_each_family_is_corrected_once(monkeypatch):
    """A correction plans, for each of its comparisons, how many runs a study needs: seconds."""
    pytest.importorskip("sacrebleu")
    corrected = []
    original = module._correct
    monkeypatch.setattr(module, "_correct", lambda *a: corrected.append(a) or original(*a))
    found(metrics=("bleu", "chrf", "ter"))
    assert len(corrected) == 2  # the primary metric, the others
