"""Bootstrap and randomisation against loops that draw sentence by sentence, and enumeration."""

import itertools

import numpy as np
import pytest

from selfattn_experiments.compare.sentence_level import (
    Resampled,
    both_levels,
    mcnemar,
    resample,
    sentence_tests,
)
from selfattn_tasks.translation.metrics import bleu_scores, ter_scores, translation_metrics


def ter_counts(runs, sentences, worse=0.0):
    """Edits and words; the second half of the runs has ``worse`` more edits a sentence."""
    rng = np.random.default_rng(11)
    words = rng.integers(5, 20, sentences)
    edits = rng.binomial(words, 0.4, size=(runs, sentences))
    edits[runs // 2 :] += rng.poisson(worse, size=(runs - runs // 2, sentences))
    return np.stack([edits, np.broadcast_to(words, edits.shape)], axis=-1).astype(float)


def run_tests(counts, x, y, scorer=ter_scores, samples=2000, seed=1):
    draws = resample(counts, scorer, samples, np.random.default_rng(seed))
    return sentence_tests(draws, x, y, scorer, np.random.default_rng(seed))


def test_observed_scores_and_the_mean_of_draws():
    counts = ter_counts(3, 50)
    draws = resample(counts, ter_scores, 500, np.random.default_rng(0))
    expected = [100 * run[:, 0].sum() / run[:, 1].sum() for run in counts]
    assert draws.observed == pytest.approx(expected)
    assert draws.bootstrap.shape == (500, 3)
    assert draws.bootstrap.mean(axis=0) == pytest.approx(expected, abs=0.7)
    # A kept sentence is kept in every run, and each with probability one half.
    assert (draws.kept[:, 0, 1] == draws.kept[:, 2, 1]).all()
    assert draws.kept[:, 0, 1].mean() == pytest.approx(counts[0, :, 1].sum() / 2, rel=0.03)


def test_bootstrap_is_a_loop_over_sentences():
    counts = ter_counts(4, 60, worse=0.2)
    found = run_tests(counts, [0, 1], [2, 3], samples=4000)
    loop = np.random.default_rng(99)

    def difference(sample):
        scores = [100 * sum(r[i, 0] for i in sample) / sum(r[i, 1] for i in sample) for r in counts]
        return (scores[2] + scores[3] - scores[0] - scores[1]) / 2

    observed = difference(range(60))
    drawn = np.array([difference(loop.integers(60, size=60)) for _ in range(1000)])
    expected_p = (np.abs(drawn - observed) >= abs(observed)).mean()
    assert found.bootstrap_p == pytest.approx(expected_p, abs=0.05)
    assert found.test_set_sd == pytest.approx(drawn.std(), rel=0.1)
    assert found.interval == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.6)


@pytest.mark.parametrize("runs", [1, 2])
def test_randomisation_is_every_swap_written_out(runs):
    counts = ter_counts(2 * runs, 9, worse=1)
    x, y = list(range(runs)), list(range(runs, 2 * runs))

    def difference(coins):
        mixed = counts.copy()
        for i, swap in enumerate(coins):
            if swap:
                mixed[x, i], mixed[y, i] = counts[y, i], counts[x, i]
        scores = 100 * mixed[..., 0].sum(axis=1) / mixed[..., 1].sum(axis=1)
        return scores[y].mean() - scores[x].mean()

    observed = abs(difference([0] * 9))
    every = [abs(difference(coins)) for coins in itertools.product([0, 1], repeat=9)]
    expected = np.mean(np.array(every) >= observed - 1e-9)
    assert run_tests(counts, x, y, samples=20_000).randomisation_p == pytest.approx(
        expected, abs=0.02
    )


def test_sacrebleus_randomisation_agrees_and_its_bootstrap_gives_half():
    """It takes |difference| for the draws' centre, so one tail is all that it counts."""
    metrics = pytest.importorskip("sacrebleu.metrics")
    significance = pytest.importorskip("sacrebleu.significance")
    rng = np.random.default_rng(3)
    gold, *outputs = (
        [" ".join("abc"[i] for i in rng.choice(3, 9, p=p)) for _ in range(40)]
        for p in ([0.6, 0.2, 0.2], [0.5, 0.3, 0.2], [0.35, 0.35, 0.3])
    )
    bleu = translation_metrics(["BLEU"], lowercase=False)[0]
    ours = run_tests(np.stack(bleu.counts(gold, outputs)), [0], [1], bleu.scores)
    named = list(zip("xy", outputs, strict=True))
    theirs = {}
    for kind in ("ar", "bs"):
        test = significance.PairedTest(
            named, {"BLEU": metrics.BLEU(force=True)}, [gold], kind, n_samples=2000
        )
        theirs[kind] = test()[1]["BLEU"][1].p_value
    assert 0.01 < ours.randomisation_p < 0.2
    assert theirs["ar"] == pytest.approx(ours.randomisation_p, abs=0.03)
    assert theirs["bs"] == pytest.approx(ours.bootstrap_p / 2, abs=0.015)


def test_variance_is_split_into_test_set_and_seeds():
    counts = ter_counts(5, 200)
    found = run_tests(counts, [0, 1], [2, 3, 4])
    scores = ter_scores(counts.sum(axis=1))
    seed = np.sqrt(scores[:2].var(ddof=1) / 2 + scores[2:].var(ddof=1) / 3)
    assert found.seed_sd == pytest.approx(seed)
    share = seed**2 / (seed**2 + found.test_set_sd**2)
    assert found.seed_share == pytest.approx(share) and 0 < share < 1
    assert run_tests(counts, [0], [1, 2]).seed_share is None


@pytest.mark.parametrize("sides", [([0], [0]), ([0, 1, 2], [0, 1, 2]), ([0, 1], [1, 0])])
def test_a_system_against_itself_has_p_1(sides):
    found = run_tests(ter_counts(3, 40), *sides)
    assert found.bootstrap_p == found.randomisation_p == 1


def test_swapping_the_sides_turns_the_interval_only():
    counts = ter_counts(6, 80, worse=0.1)
    there, back = run_tests(counts, [0, 1, 2], [3, 4, 5]), run_tests(counts, [3, 4, 5], [0, 1, 2])
    assert there.bootstrap_p == back.bootstrap_p
    assert there.randomisation_p == back.randomisation_p
    assert there.interval == pytest.approx((-back.interval[1], -back.interval[0]))


def test_a_large_difference_is_found_with_unequal_numbers_of_runs():
    counts = ter_counts(5, 300, worse=1.5)
    found = run_tests(counts, [0, 1], [2, 3, 4], samples=999)
    assert found.bootstrap_p == found.randomisation_p == 1 / 1000


def test_draws_in_pieces_for_little_memory(monkeypatch):
    counts = np.concatenate([ter_counts(2, 30)] * 5, axis=-1)
    whole = resample(counts, bleu_scores, 64, np.random.default_rng(4))
    monkeypatch.setattr("selfattn_experiments.compare.sentence_level._CELLS", 30)
    pieces = resample(counts, bleu_scores, 64, np.random.default_rng(4))
    assert whole.bootstrap.shape == pieces.bootstrap.shape
    assert pieces.bootstrap.mean() == pytest.approx(whole.bootstrap.mean(), rel=0.05)
    assert np.isfinite(pieces.bootstrap).all() and (pieces.kept <= pieces.totals).all()


def test_the_bootstrap_over_both_levels_adds_seeds_and_sentences():
    rng = np.random.default_rng(4)
    seeds = np.array([0.0, 2.0, 4.0, 1.0, 5.0])
    sentences = rng.normal(0, 1.5, (20_000, 1))
    drawn = Resampled(seeds, seeds + np.hstack([0 * sentences] * 2 + [sentences] * 3), None, None)
    found = both_levels(drawn, [0, 1], [2, 3, 4], rng)
    # Variances: of the mean of two draws from 0, 2; of three from 4, 1, 5; of the sentences.
    sd = np.sqrt(1 / 2 + np.var([4, 1, 5]) / 3 + 1.5**2)
    assert np.ptp(found.interval) == pytest.approx(2 * 1.96 * sd, rel=0.03)
    assert np.mean(found.interval) == pytest.approx(10 / 3 - 1, abs=0.1)
    assert (
        found.equivalence > 0.5 and both_levels(drawn, [0, 1], [2, 3, 4], rng, 9).equivalence < 0.01
    )
    assert both_levels(drawn, [0], [2, 3, 4], rng) is None
    assert both_levels(drawn, [0, 1], [0, 1], rng).p == 1


def test_blocks_change_no_number(monkeypatch):
    counts = np.concatenate([ter_counts(3, 50)] * 5, axis=-1).astype(np.uint8)
    whole = resample(counts, bleu_scores, 40, np.random.default_rng(4))
    monkeypatch.setattr("selfattn_experiments.compare.sentence_level._ROWS", 13)
    blocks = resample(counts, bleu_scores, 40, np.random.default_rng(4))
    for name in ("observed", "bootstrap", "kept", "totals"):
        assert (getattr(whole, name) == getattr(blocks, name)).all()
    # 200 edits or more would leave the smallest integers, were they summed in them.
    assert whole.totals.dtype == np.float64 and whole.totals.max() > 255


def test_mcnemar_by_hand():
    both, neither = [1] * 6, [0] * 4
    x = np.array([*both, *neither, 0, 0, 0, 0, 0, 1])
    y = np.array([*both, *neither, 1, 1, 1, 1, 1, 0])
    # 1 of 6 sentences: (1 + 6) / 2^6 in each tail.
    assert mcnemar(x, y) == mcnemar(y, x) == pytest.approx(2 * 7 / 64)
    assert mcnemar(x, x) == 1
