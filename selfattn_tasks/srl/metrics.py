"""F1 and perfect propositions from summed counts, equal to the official CoNLL-2005 script's."""

from __future__ import annotations

from collections.abc import Sequence

from selfattn import __version__

from ..metric import Counts, Metric, SentenceCounts, compact, percent
from .propositions import Sentence
from .scorer import Result, score

NAMES = ("F1", "Comp.")


def f1_scores(sums: Counts) -> Counts:
    """F1 of arguments as the official CoNLL-2005 script computes it.

    Args:
        sums: shape (..., 5): correct, excess, missed, perfect propositions, propositions.
    """
    correct, excess, missed = sums[..., 0], sums[..., 1], sums[..., 2]
    both = 2 * correct + excess + missed
    return percent(2 * correct, both)


def perfect_scores(sums: Counts) -> Counts:
    """The share of perfect propositions ("Comp."); ``sums`` as for :func:`f1_scores`."""
    return percent(sums[..., 3], sums[..., 4])


def counts_of(found: Result) -> tuple[int, ...]:
    """The counts of scored sentences in the order of :func:`f1_scores`."""
    overall = found.overall
    return (
        overall.correct, overall.excess, overall.missed, found.perfect_props, found.propositions,
    )  # fmt: skip


class TaggingMetric(Metric):
    """A score of semantic roles, equal to that of the official CoNLL-2005 script.

    Args:
        name: one of NAMES, which come from the same counts.
    """

    source = "arguments"
    # The script that the score follows, and the version that computed it.
    signature = f"script:srl-eval|V:no|version:selfattn-{__version__}"

    def counts(
        self, gold: Sequence[Sentence], outputs: Sequence[Sequence[Sentence]]
    ) -> list[SentenceCounts]:
        """Count each sentence of several outputs, with the columns of :func:`f1_scores`."""
        return [
            compact([counts_of(score([g], [h])) for g, h in zip(gold, out, strict=True)])
            for out in outputs
        ]

    def scores(self, sums: Counts) -> Counts:
        """Turn summed counts, shape (..., 5), into scores, shape (...)."""
        return f1_scores(sums) if self.name == "F1" else perfect_scores(sums)
