"""F1 and perfect propositions from summed counts, as the official script's; and seqeval's F1."""

from collections.abc import Sequence

import numpy as np

from selfattn import __version__
from selfattn.errors import needed

from ..metric import Counts, Metric, SentenceCounts, compact, percent
from .formats.bio import to_bio
from .propositions import Sentence
from .scorer import Result, score

NAMES = ("F1", "Comp.")
SEQEVAL = "seqeval F1 of BIO spans, V included, C-X a label of its own"


def counts_of(found: Result) -> tuple[int, ...]:
    """Correct, excess and missed arguments, perfect propositions, and all propositions."""
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
        """Count each sentence of several outputs, with the columns of :func:`counts_of`."""
        return [
            compact([counts_of(score([g], [h])) for g, h in zip(gold, out, strict=True)])
            for out in outputs
        ]

    def scores(self, sums: Counts) -> Counts:
        """F1 as the official script computes it, or the share of perfect propositions ("Comp.")."""
        correct, excess, missed, perfect, propositions = np.moveaxis(sums, -1, 0)
        if self.name != "F1":
            return percent(perfect, propositions)
        # Not 2 correct / (2 correct + excess + missed): that rounds 3.125 to 3.12, this to 3.13.
        p, r = percent(correct, correct + excess), percent(correct, correct + missed)
        return 2 * p * r / np.where(p + r > 0, p + r, 1.0)


def tag_f1(gold: Sequence[Sentence], predicted: Sequence[Sentence]) -> dict[str, float]:
    """Precision, recall and F1 of the spans of gold predicates, in percent, by seqeval.

    This is not the score that papers on semantic roles report: ``V``, which is nearly always
    correct, counts, and each piece of a discontinuous argument counts.

    Args:
        gold: the sentences of a test set.
        predicted: the same sentences, as a system labelled them.

    Raises:
        UserError: if seqeval is not installed, or spans nest, which BIO tags cannot hold.
    """
    seqeval = needed("seqeval.metrics.sequence_labeling")
    wanted: list[list[str]] = []
    given: list[list[str]] = []
    for ours, theirs in zip(gold, predicted, strict=True):
        answers = {p.predicate: p.spans for p in theirs.propositions}
        for proposition in ours.propositions:
            wanted.append(to_bio(proposition.spans, len(ours.words)))
            given.append(to_bio(answers.get(proposition.predicate, ()), len(ours.words)))
    names = ("precision", "recall", "f1")
    if not wanted:  # which seqeval refuses
        return dict.fromkeys(names, 0.0)
    shares = seqeval.precision_recall_fscore_support(
        wanted, given, average="micro", zero_division=0
    )
    return {name: 100 * float(share) for name, share in zip(names, shares[:3], strict=True)}
