"""What a reader of results should know of the parts of a corpus."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from .record import Example


def lengths(examples: Sequence[Example]) -> dict[str, float]:
    """Of all sentences: how many, words of the mean, the 97th percentile and the longest.

    Keys are ``sentences``, ``empty``, ``mean``, ``sd``, ``97 %`` and ``longest``.
    """
    words = _all_lengths(examples)
    return {
        "sentences": len(words),
        "empty": int((words == 0).sum()),
        "mean": round(float(words.mean()), 3),
        "sd": round(float(words.std()), 3),
        "97 %": percentile(words, 97),
        "longest": int(words.max()),
    }


def _all_lengths(examples: Sequence[Example]) -> np.ndarray:
    """Words of each sentence of each example."""
    return np.array([len(words) for example in examples for words in example.sentences])


def percentile(words: np.ndarray, percent: float) -> int:
    """The smallest length that so many percent of the sentences do not exceed."""
    return int(np.percentile(words, percent, method="inverted_cdf"))


def without_longest(examples: Sequence[Example], percent: float) -> list[Example]:
    """Examples without a sentence above a percentile of the lengths: the papers' rule for SNLI."""
    words = _all_lengths(examples)
    limit = percentile(words, percent)
    return [example for example in examples if max(map(len, example.sentences)) <= limit]


def repeated(examples: Sequence[Example]) -> int:
    """How many examples have the sentences of an earlier one."""
    return len(examples) - len({example.sentences for example in examples})


def classes(examples: Sequence[Example]) -> dict[str, int]:
    """How many examples each class or index has, in the order of their names."""
    return {str(name): n for name, n in sorted(Counter(e.target for e in examples).items())}


def missing_in_folds(
    examples: Sequence[Example], numbers: Sequence[int], folds: int
) -> dict[str, list[int]]:
    """Of each class that some fold lacks, these folds."""
    there = {(example.target, fold) for example, fold in zip(examples, numbers, strict=True)}
    names = sorted({str(example.target) for example in examples})
    lacking = {name: [f for f in range(folds) if (name, f) not in there] for name in names}
    return {name: found for name, found in lacking.items() if found}
