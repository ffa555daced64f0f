"""Metrics of sentences against NumPy and SciPy, and as sums that a comparison resamples."""

from pathlib import Path

import numpy as np
import pytest

from selfattn_tasks.sentences.metrics import (
    Answer,
    SentenceMetric,
    figures,
    names_of,
    ranked,
    scale,
)
from tests.conftest import run_verb

RNG = np.random.default_rng(4)
# Scores as SICK has them, with ties, and predictions with six decimals.
GOLD = [round(float(x), 1) for x in RNG.uniform(1, 5, 300)]
GUESS = [round(float(np.clip(x + RNG.normal(0, 0.8), 1, 5)), 6) for x in GOLD]


def test_scores_equal_scipys():
    stats = pytest.importorskip("scipy.stats")
    found = figures(ranked(GOLD), ranked(GUESS))
    assert list(found) == ["Pearson", "Spearman", "MSE"]
    assert found["Pearson"] == pytest.approx(stats.pearsonr(GOLD, GUESS)[0], abs=1e-12)
    assert found["Spearman"] == pytest.approx(stats.spearmanr(GOLD, GUESS)[0], abs=1e-12)
    assert found["MSE"] == pytest.approx(np.mean((np.array(GOLD) - GUESS) ** 2), abs=1e-12)
    ranks = [answer.rank for answer in ranked(GUESS)]
    assert ranks == stats.rankdata(GUESS).tolist()


@pytest.mark.parametrize(("start", "step"), [(5.0, 1e-6), (9000.0, 1e-3)])
def test_scores_that_hardly_differ_have_a_correlation(start, step):
    found = figures(ranked([1.0, 2.0, 3.0]), ranked([start, start + step, start + 2 * step]))
    assert found["Pearson"] == pytest.approx(1, abs=1e-6)


def test_a_correlation_does_not_depend_on_the_scale_of_a_system():
    """Nor do the sums of sentences that systems with scales of their own swap in a test."""
    guesses = [ranked(GUESS), ranked([0.01 * value + 7 for value in GUESS])]
    for name in ("Pearson", "Spearman"):
        one, other = SentenceMetric(name).counts(ranked(GOLD), guesses)
        assert other == pytest.approx(one, abs=1e-9), name


def test_perfect_and_reversed():
    up, down = ranked([1.0, 2.5, 5.0]), ranked([5.0, 2.5, 1.0])
    assert figures(up, up) == {"Pearson": 1.0, "Spearman": 1.0, "MSE": 0.0}
    assert figures(up, down)["Spearman"] == pytest.approx(-1)
    low, high = scale("MSE").limits
    assert low <= figures(up, ranked([20.0, 50.0, 100.0]))["MSE"] <= high  # of another scale


@pytest.mark.parametrize("size", [2, 97])
def test_a_constant_has_no_correlation(size):
    """Not even one of rounding errors; in sums it counts as 0."""
    gold, flat = ranked(GOLD[:size]), ranked([3.123457] * size)
    for one, other in ((gold, flat), (flat, gold)):
        found = figures(one, other)
        assert found["Pearson"] is None and found["Spearman"] is None and found["MSE"] > 0
        for name in ("Pearson", "Spearman"):
            (sums,) = SentenceMetric(name).counts(one, [other])
            assert SentenceMetric(name).scores(sums.sum(axis=0)) == 0


def test_accuracy_in_percent():
    gold = [Answer("yes"), Answer("no"), Answer(None), Answer("no")]
    guess = [Answer("yes"), Answer("yes"), Answer("yes"), Answer("no")]
    assert figures(gold, guess) == {"accuracy": pytest.approx(200 / 3)}
    (counts,) = SentenceMetric("accuracy").counts(gold, [guess])
    assert counts.tolist() == [[1, 1], [0, 1], [0, 0], [1, 1]] and counts.dtype == np.uint8


def test_an_example_without_a_score_changes_nothing():
    gaps = [value for score in GOLD for value in (score, None)]
    guess = [value for score in GUESS for value in (score, 4.5)]
    # Ranks are among the examples that count, as the reader of predictions sees to.
    counted = [g if k is not None else None for g, k in zip(guess, gaps, strict=True)]
    assert figures(ranked(gaps), ranked(counted)) == pytest.approx(
        figures(ranked(GOLD), ranked(GUESS)), abs=1e-12
    )


def test_which_metrics_a_gold_file_has():
    assert names_of([Answer(None), Answer(3.0, 1.0)]) == ("Pearson", "Spearman", "MSE")
    assert names_of([Answer(2)]) == names_of([Answer("2")]) == ("accuracy",)


def test_a_drawn_test_set_is_scored_by_its_sums():
    """Pearson and MSE as of the drawn pairs themselves; Spearman as Pearson of the old ranks."""
    drawn = RNG.integers(len(GOLD), size=len(GOLD))
    gold, guess = ranked(GOLD), ranked(GUESS)
    x, y = np.array(GOLD)[drawn], np.array(GUESS)[drawn]
    ranks = [np.array([a.rank for a in side])[drawn] for side in (gold, guess)]
    expected = {
        "Pearson": np.corrcoef(x, y)[0, 1],
        "Spearman": np.corrcoef(*ranks)[0, 1],
        "MSE": np.mean((x - y) ** 2),
    }
    for name, value in expected.items():
        (counts,) = SentenceMetric(name).counts(gold, [guess])
        found = SentenceMetric(name).scores(counts[drawn].sum(axis=0))
        assert found == pytest.approx(value, abs=1e-11), name


@pytest.mark.parametrize(("flags", "relevant"), [([], "0.01"), (["--relevant", "0.05"], "0.05")])
def test_a_comparison_of_correlations(tmp_path, monkeypatch, capsys, flags, relevant):
    """Four digits, no percent; less than a hundredth is equivalent unless the user says more."""
    pytest.importorskip("scipy")
    monkeypatch.chdir(tmp_path)
    gold = sorted(GOLD)  # so that the sentences that are counted together are unlike the others
    rows = [f"one boat\ta ship {i}\t{score}" for i, score in enumerate(gold)]
    Path("gold.tsv").write_text("sentence1\tsentence2\tscore\n" + "\n".join(rows) + "\n")
    for system, spread in (("base", 0.2), ("more", 0.201)):
        for seed in (1, 2, 3):
            drawn = np.random.default_rng(seed).normal(0, spread, len(gold))
            lines = [f"{value:.6f}\n" for value in np.clip(gold + drawn, 1, 5)]
            Path(f"{system}-{seed}.tsv").write_text("prediction\n" + "".join(lines))
    Path("flat-1.tsv").write_text("prediction\n" + "3.0\n" * len(gold))
    systems = ["--baseline=base=base-*.tsv", "--system=more=more-*.tsv", "--system=flat=flat-1.tsv"]
    run_verb("compare", "--ref=gold.tsv", "--samples=100", "--latex=t.tex", *systems, *flags)
    said = " ".join(capsys.readouterr().out.split())
    assert f"less than {relevant} apart" in said
    mean = np.mean([figures(ranked(gold), read("base", seed))["Pearson"] for seed in (1, 2, 3)])
    assert f"Pearson base 3 {mean:.4f} " in said and f" {mean:.4f} $" in Path("t.tex").read_text()
    assert "MSE is an error: lower is better." in said
    assert "flat-1.tsv: every prediction is 3, so its correlations are not defined" in said


def read(system, seed):
    lines = Path(f"{system}-{seed}.tsv").read_text().splitlines()[1:]
    return ranked([float(line) for line in lines])
