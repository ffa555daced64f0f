"""A second figure: F1 of tagged spans as the package seqeval counts them."""

from __future__ import annotations

from collections.abc import Sequence

from selfattn.errors import needed

from .formats.bio import to_bio
from .propositions import Sentence

NAME = "seqeval F1 of BIO spans, V included, C-X a label of its own"


def tag_f1(gold: Sequence[Sentence], predicted: Sequence[Sentence]) -> dict[str, float]:
    """Precision, recall and F1 of the spans of gold predicates, in percent, by seqeval.

    Not the score of papers on semantic roles: ``V``, which is nearly always right, counts, and a
    discontinuous argument counts once a piece.

    Raises:
        UserError: if seqeval is not installed, or spans nest, which BIO tags cannot hold.
    """
    metrics = needed("seqeval.metrics")
    wanted: list[list[str]] = []
    given: list[list[str]] = []
    for ours, theirs in zip(gold, predicted, strict=True):
        answers = {p.predicate: p.spans for p in theirs.propositions}
        for proposition in ours.propositions:
            wanted.append(to_bio(proposition.spans, len(ours.words)))
            given.append(to_bio(answers.get(proposition.predicate, ()), len(ours.words)))
    figures = {name: getattr(metrics, f"{name}_score") for name in ("precision", "recall", "f1")}
    if not any(tag != "O" for side in (wanted, given) for tags in side for tag in tags):
        return dict.fromkeys(figures, 0.0)
    return {
        name: 100 * float(function(wanted, given, zero_division=0))
        for name, function in figures.items()
    }
