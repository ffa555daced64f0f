"""Metrics: statistics of each sentence, and scores from their sums.

Every score is a function of statistics that are summed over sentences, so a resampled test set is
scored by one matrix product and no text is read twice. The statistics of a run are an array of
shape (sentences, columns): counts in the smallest unsigned integers that hold them, whose sums are
exact up to 2^53, or floats for a metric that has no counts. Sums are float64.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Of each sentence, shape (sentences, columns), and summed, shape (..., columns); scores too.
SentenceCounts = NDArray[Any]
Counts = NDArray[np.float64]


@dataclass(frozen=True)
class Scale:
    """How the scores of a metric are written and judged.

    Args:
        digits: after the point, in tables.
        limits: the least and the largest score that the metric can give.
        relevant: a difference that would matter, unless the user names another.
        right_or_wrong: the first statistic of a sentence is 1 if it is right and 0 if it is wrong.
        says_error: how an error rate is introduced.
    """

    digits: int = 2
    limits: tuple[float, float] = (0.0, 100.0)
    relevant: float = 0.5
    right_or_wrong: bool = False
    says_error: str = "counts errors"


class Metric(ABC):
    """What a comparison needs to know about a metric.

    Args:
        name: in tables.

    Attributes:
        source: metrics of one source have the same counts.
        signature: what must agree before two scores may be compared.
        higher_is_better: False for an error rate.
    """

    source: str
    signature: str
    higher_is_better: bool = True

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def counts(self, gold: Sequence[Any], outputs: Sequence[Sequence[Any]]) -> list[SentenceCounts]:
        """Count each sentence of several outputs.

        Args:
            gold: some sentences of the test set.
            outputs: the same sentences of each run. What a reference needs is worked out once for
                all of them.

        Returns:
            an array of shape (sentences, columns) for each output.
        """

    @abstractmethod
    def scores(self, sums: Counts) -> Counts:
        """Scores from summed counts, shape (..., columns) to (...)."""


def short(value: float) -> str:
    """A score as people write it; below 1 it is a correlation or an error."""
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.4f}"


def compact(rows: ArrayLike) -> SentenceCounts:
    """Store rows of counts in the smallest unsigned integers that hold them."""
    # TER gives the length of the one reference as a float.
    table = np.array(rows, dtype=np.uint64)
    return table.astype(np.min_scalar_type(table.max(initial=0)))


def percent(part: Counts, whole: Counts) -> Counts:
    """100 * part / whole, or 0 where the whole is 0; both have the same shape."""
    zeros = np.zeros(np.shape(whole))
    return np.divide(100.0 * part, whole, out=zeros, where=whole > 0)
