"""Tests in which a sentence is one observation: what the choice of the test set allows to say.

They hold the runs fixed. Differences between training seeds are outside of what they measure, so
with few runs they call far too many differences significant (see examples/significance).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from selfattn.errors import needed
from selfattn_tasks.metric import Counts

from .run_level import TOLERANCE, Interval

Scorer = Callable[[Counts], Counts]
# Draws times sentences at a time, and sentences that are multiplied: some 120 MB beside the counts.
_CELLS = 4_000_000
_ROWS = 8192


@dataclass(frozen=True)
class Resampled:
    """Scores of all runs under resampling."""

    observed: Counts  # shape (runs,): of the test set as it is
    bootstrap: Counts  # shape (samples, runs): of test sets drawn from it with replacement
    # Shape (samples, runs, columns): sums over the sentences whose coin fell on "keep".
    kept: Counts
    totals: Counts  # shape (runs, columns): sums over all sentences


@dataclass(frozen=True)
class SentenceTests:
    """What the sentences say about a difference."""

    bootstrap_p: float  # paired bootstrap, two-sided
    interval: Interval  # 95 % interval of the difference over test sets, the runs held fixed
    randomisation_p: float  # approximate randomisation, two-sided
    # Standard deviation of the difference that comes from the choice of sentences.
    test_set_sd: float
    seed_sd: float | None  # the one that comes from the choice of seeds; None if a side has one run
    # McNemar's exact test, two-sided; None unless each system has one run, right or wrong.
    mcnemar_p: float | None = None
    # The same after Holm's correction over the family of comparisons.
    mcnemar_holm: float | None = None

    @property
    def seed_share(self) -> float | None:
        """Share of the seeds in the sum of both variances, from 0 to 1."""
        if self.seed_sd is None:
            return None
        both = self.seed_sd**2 + self.test_set_sd**2
        return self.seed_sd**2 / both if both else 0.0


def resample(
    counts: NDArray[Any], scorer: Scorer, samples: int, rng: np.random.Generator
) -> Resampled:
    """Resample the sentences, the same ones for every run.

    Args:
        counts: shape (runs, sentences, columns), numbers of any type.
        scorer: from summed counts to scores.
        samples: number of draws for each of the two tests.
        rng: the source of randomness.
    """
    runs, sentences, columns = counts.shape
    # One row per sentence, so that each draw is a product of matrices over all runs.
    table = np.ascontiguousarray(counts.transpose(1, 0, 2).reshape(sentences, runs * columns))
    drawn = np.empty((samples, runs * columns))
    kept = np.empty_like(drawn)
    step = max(1, _CELLS // sentences)
    for start in range(0, samples, step):
        size = min(step, samples - start)
        weights = np.empty((2 * size, sentences), dtype=np.int32)
        weights[:size] = _times_drawn(rng, size, sentences)
        weights[size:] = rng.integers(2, size=(size, sentences))
        sums = _weighted_sums(weights, table)
        drawn[start : start + size], kept[start : start + size] = sums[:size], sums[size:]
    totals = counts.sum(axis=1, dtype=np.float64)
    return Resampled(
        observed=scorer(totals),
        bootstrap=scorer(drawn.reshape(samples, runs, columns)),
        kept=kept.reshape(samples, runs, columns),
        totals=totals,
    )


def _weighted_sums(weights: NDArray[Any], table: NDArray[Any]) -> Counts:
    """The product of whole numbers and statistics, shapes (draws, sentences) and (sentences, n).

    In blocks, because only floats are multiplied fast, and of compact integers they take 8 times
    the memory. Sums of whole numbers are exact.
    """
    sums = np.zeros((len(weights), table.shape[1]))
    for start in range(0, len(table), _ROWS):
        rows = slice(start, start + _ROWS)
        sums += weights[:, rows].astype(np.float64) @ table[rows].astype(np.float64)
    return sums


def _times_drawn(rng: np.random.Generator, draws: int, sentences: int) -> NDArray[np.int64]:
    """How often each sentence is in each draw, shape (draws, sentences)."""
    picks = rng.integers(sentences, size=(draws, sentences))
    picks += sentences * np.arange(draws)[:, None]
    return np.bincount(picks.ravel(), minlength=picks.size).reshape(draws, sentences)


def sentence_tests(
    resampled: Resampled,
    baseline: Sequence[int],
    system: Sequence[int],
    scorer: Scorer,
    rng: np.random.Generator,
) -> SentenceTests:
    """Paired bootstrap and approximate randomisation of the difference of mean scores.

    Args:
        resampled: all runs of a test set and metric.
        baseline: the baseline's runs in it.
        system: the system's runs; runs of one rank swap sentences with each other.
        scorer: from summed counts to scores.
        rng: draws partners where one side has more runs.
    """
    x, y = list(baseline), list(system)
    observed = float(resampled.observed[y].mean() - resampled.observed[x].mean())
    drawn = resampled.bootstrap[:, y].mean(axis=1) - resampled.bootstrap[:, x].mean(axis=1)
    shuffled = _swapped_differences(resampled, x, y, scorer, rng)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return SentenceTests(
        # Under the null hypothesis the draws lie around 0 as they lie here around the difference.
        bootstrap_p=_p_value(np.abs(drawn - observed), abs(observed)),
        interval=(float(low), float(high)),
        randomisation_p=_p_value(np.abs(shuffled), abs(observed)),
        test_set_sd=float(np.std(drawn, ddof=1)),
        seed_sd=_seed_sd(resampled.observed[x], resampled.observed[y]),
    )


def _swapped_differences(
    resampled: Resampled, x: list[int], y: list[int], scorer: Scorer, rng: np.random.Generator
) -> Counts:
    """Differences after swapping sentences between the sides, shape (samples,).

    One coin decides for a sentence in all runs, and runs swap within their stratum, the pair of
    runs of one rank. With unequal numbers the partners of a draw are random and as even as can be.

    Differs: MultEval (Clark et al. 2011) throws a coin for each run and sentence. That takes what
    the runs of a system have in common on a sentence for independent, and rejects too often when
    systems are good at different sentences.
    """
    samples = len(resampled.kept)
    partners_of_x = _partners(len(x), len(y), samples, rng)
    partners_of_y = _partners(len(y), len(x), samples, rng)
    kept, swapped = resampled.kept, resampled.totals - resampled.kept
    rows = np.arange(samples)[:, None]
    mixed_x = scorer(kept[:, x] + swapped[rows, np.array(y)[partners_of_x]])
    mixed_y = scorer(kept[:, y] + swapped[rows, np.array(x)[partners_of_y]])
    difference: Counts = mixed_y.mean(axis=1) - mixed_x.mean(axis=1)
    return difference


def _partners(own: int, other: int, samples: int, rng: np.random.Generator) -> np.ndarray:
    """For each draw and each own run, the run of the other side that it swaps with."""
    if own == other:
        return np.broadcast_to(np.arange(own), (samples, own))
    rounds = [
        np.argsort(rng.random((samples, other)), axis=1) for _ in range((own + other - 1) // other)
    ]
    return np.concatenate(rounds, axis=1)[:, :own]


def _p_value(draws: Counts, observed: float) -> float:
    # With >=, a system compared with itself gives 1; sacreBLEU's > gives 1 / (samples + 1).
    hits = np.count_nonzero(draws >= observed - TOLERANCE)
    return float((hits + 1) / (len(draws) + 1))


def _seed_sd(x: Counts, y: Counts) -> float | None:
    if min(len(x), len(y)) < 2:
        return None
    return float(np.sqrt(np.var(x, ddof=1) / len(x) + np.var(y, ddof=1) / len(y)))


@final
@dataclass(frozen=True)
class BothLevels:
    """The outcome over seeds and test sets."""

    p: float  # two-sided
    interval: Interval  # of the difference
    equivalence: float  # p of a difference that reaches the relevant one


def mcnemar(baseline: NDArray[Any], system: NDArray[Any]) -> float:
    """McNemar's exact test (1947): of the sentences that one run alone has right, half each?

    Args:
        baseline: 1 for each sentence that the run has right, else 0.
        system: likewise, of the same sentences.

    Returns:
        The two-sided p; 1 where no sentence tells the runs apart.
    """
    x, y = baseline.astype(bool), system.astype(bool)
    only_x, only_y = int((x & ~y).sum()), int((y & ~x).sum())
    if not only_x + only_y:
        return 1.0
    return float(needed("scipy.stats").binomtest(only_y, only_x + only_y).pvalue)


def both_levels(
    resampled: Resampled,
    baseline: Sequence[int],
    system: Sequence[int],
    rng: np.random.Generator,
    relevant: float = 0.0,
) -> BothLevels | None:
    """Bootstrap over seeds and sentences: runs of each side are drawn anew with each test set.

    The multi-bootstrap of Sellam et al. (2022) with unpaired seeds.

    Returns:
        p, two-sided, and the 95 % interval of the difference; None with one run on a side.
        p of equivalence is that of the side, of -relevant or relevant, that more draws lie beyond.
    """
    if min(len(baseline), len(system)) < 2:
        return None
    means = []
    for side in (list(baseline), list(system)):
        picks = rng.integers(len(side), size=(len(resampled.bootstrap), len(side)))
        means.append(np.take_along_axis(resampled.bootstrap[:, side], picks, axis=1).mean(axis=1))
    drawn = means[1] - means[0]
    seen = resampled.observed
    observed = float(seen[list(system)].mean() - seen[list(baseline)].mean())
    low, high = np.quantile(drawn, [0.025, 0.975])
    beyond = max(np.count_nonzero(drawn <= -relevant), np.count_nonzero(drawn >= relevant))
    return BothLevels(
        _p_value(np.abs(drawn - observed), abs(observed)),
        (float(low), float(high)),
        (beyond + 1) / (len(drawn) + 1),
    )
