"""Accuracy, Pearson's and Spearman's correlation and mean squared error, from summed statistics."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from selfattn import __version__

from ..metric import Counts, Metric, Scale, SentenceCounts, compact, percent
from .record import HIGHEST, LOWEST, Target

ACCURACY, PEARSON, SPEARMAN, MSE = NAMES = ("accuracy", "Pearson", "Spearman", "MSE")
# A correlation is about 1 at most, and papers print four digits of it.
_SCALES = {
    ACCURACY: Scale(right_or_wrong=True),
    PEARSON: Scale(4, (-1.0, 1.0), relevant=0.01),
    SPEARMAN: Scale(4, (-1.0, 1.0), relevant=0.01),
    # Another program's predictions may lie far outside the scores.
    MSE: Scale(4, (0.0, math.inf), relevant=0.01, says_error="is an error"),
}
# An error's scores are counted from here: sums of squares lose fewer digits.
_MIDDLE = (LOWEST + HIGHEST) / 2
# Less variance than this share of the mean square is rounding.
_CONSTANT = 1e-12


class Answer(NamedTuple):
    """What is right for an example, or what a system says.

    Args:
        value: a class, a score or an index; None where the gold file has no label.
        rank: of a score among all of the file, from 1; equal scores share their mean rank.
        standard: a score less the file's mean, in its standard deviations. Scores that hardly
            differ may lie far from 0, and systems that swap predictions in a test may have scales
            of their own.
    """

    value: Target
    rank: float = 0.0
    standard: float = 0.0


def ranked(values: Sequence[float | None]) -> list[Answer]:
    """Scores, at least one, with their ranks; None has none and does not count."""
    known = np.array([value for value in values if value is not None])
    _, inverse, counts = np.unique(known, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    centre, spread = known.mean(), known.std()
    standard = (known - centre) / (spread if spread > _CONSTANT * abs(centre) else 1.0)
    found = zip(ranks.tolist(), standard.tolist(), strict=True)
    return [Answer(value) if value is None else Answer(value, *next(found)) for value in values]


def answers_of(values: Sequence[Target]) -> list[Answer]:
    """What a file holds, in its order: classes and indices as they are, scores as ``ranked``."""
    scores = [value if isinstance(value, float) else None for value in values]
    if any(score is not None for score in scores):
        return ranked(scores)
    return [Answer(value) for value in values]


def names_of(gold: Sequence[Answer]) -> tuple[str, ...]:
    """The metrics of a gold file: those of scores, or accuracy; the primary one first."""
    return NAMES[1:] if any(isinstance(answer.value, float) for answer in gold) else NAMES[:1]


def scale(metric: str) -> Scale:
    """Digits, limits and the relevant difference of a metric."""
    return _SCALES[metric]


def correlation(sums: Counts) -> Counts:
    """Pearson's correlation; 0 where a side is constant, so that it is not defined.

    Args:
        sums: shape (..., 6): n, x, y, x^2, y^2, x y.
    """
    n, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    spread_x, spread_y = n * xx - x * x, n * yy - y * y
    defined = (spread_x > _CONSTANT * n * xx) & (spread_y > _CONSTANT * n * yy)
    root = np.sqrt(np.where(defined, spread_x * spread_y, 1.0))
    return np.where(defined, np.clip((n * xy - x * y) / root, -1.0, 1.0), 0.0)


def squared_error(sums: Counts) -> Counts:
    """Mean squared error; arguments as for :func:`correlation`."""
    n, _, _, xx, yy, xy = np.moveaxis(sums, -1, 0)
    # Three roundings may leave a little less than nothing.
    return np.maximum((xx + yy - 2 * xy) / np.maximum(n, 1.0), 0.0)


class SentenceMetric(Metric):
    """A score of sentences.

    Differs: Spearman's correlation is Pearson's of ranks in the whole test set. A bootstrap draws
    examples with these ranks and does not rank anew what it drew.

    Args:
        name: one of NAMES.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.higher_is_better = name != MSE
        self.source = name
        # A run's record adds its ``selection``.
        how = {SPEARMAN: "|ties:mean", MSE: "|scale:1-5"}.get(name, "")
        self.signature = f"{name}{how}|version:selfattn-{__version__}"

    def counts(
        self, gold: Sequence[Answer], outputs: Sequence[Sequence[Answer]]
    ) -> list[SentenceCounts]:
        """Statistics of each example; all 0 where the gold file has no label.

        Returns:
            Of each output shape (examples, 2) for accuracy: right, labelled; else
            (examples, 6) as :func:`correlation` takes them.
        """
        known = np.array([answer.value is not None for answer in gold], dtype=np.float64)
        found = []
        for out in outputs:
            if self.name == ACCURACY:
                right = [g.value == a.value for g, a in zip(gold, out, strict=True)]
                found.append(compact(np.stack([known * right, known], axis=1)))
            else:
                x, y = known * self._numbers(gold), known * self._numbers(out)
                found.append(np.stack([known, x, y, x * x, y * y, x * y], axis=1))
        return found

    def _numbers(self, answers: Sequence[Answer]) -> Counts:
        if self.name == SPEARMAN:
            return np.array([answer.rank for answer in answers])
        if self.name == PEARSON:
            return np.array([answer.standard for answer in answers])
        values = np.array([answer.value for answer in answers], dtype=np.float64)  # None is NaN
        return np.nan_to_num(values - _MIDDLE)

    def scores(self, sums: Counts) -> Counts:
        """Accuracy in percent, a correlation, or the squared error."""
        if self.name == ACCURACY:
            return percent(sums[..., 0], sums[..., 1])
        return squared_error(sums) if self.name == MSE else correlation(sums)


def figures(gold: Sequence[Answer], outputs: Sequence[Answer]) -> dict[str, float | None]:
    """All metrics of an output; a correlation that is not defined is None."""
    found: dict[str, float | None] = {}
    undefined = is_constant(gold) or is_constant(outputs)
    for name in names_of(gold):
        metric = SentenceMetric(name)
        (counts,) = metric.counts(gold, [outputs])
        score = float(metric.scores(counts.sum(axis=0, dtype=np.float64)))
        found[name] = None if undefined and name in (PEARSON, SPEARMAN) else score
    return found


def is_constant(answers: Sequence[Answer]) -> bool:
    """Whether all scores are one, so that they correlate with nothing."""
    return len({answer.value for answer in answers if isinstance(answer.value, float)}) == 1
