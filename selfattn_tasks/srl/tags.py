"""What a tagger's BIO tags say about one predicate."""

from __future__ import annotations

from collections.abc import Sequence

from .formats.bio import from_bio
from .propositions import CONTINUATION, VERB, Proposition

# The names that ``selfattn_tasks.srl.decode.decode`` knows.
DECODERS = ("argmax", "published", "tan", "he", "strict", "structured")


def proposition_of(
    tags: Sequence[str], predicate: int, lemma: str = "", *, decoder: str = "argmax"
) -> Proposition:
    """Spans of predicted tags, so that every file format can hold them.

    An ``I-`` that continues nothing opens a span; the predicate's word is ``V`` whatever its tag,
    and there is no other ``V``. The official score is the same, since it does not count ``V``,
    unless an argument was put over the predicate, where no argument can be. The published
    post-processing does neither: with ``published`` the tags stand as they are.

    Args:
        tags: one a word.
        predicate: position of the predicate, from 0.
        lemma: what the predicate column shall hold.
        decoder: what made the tags.

    >>> proposition_of(["I-A0", "O", "B-A1"], 1).spans[1]
    Span(label='V', start=1, end=1)
    """
    if decoder == "published":
        return Proposition(predicate, lemma, from_bio(tags))
    tags = list(tags)
    if tags[predicate][2:].removeprefix(CONTINUATION) != VERB:
        tags[predicate] = f"B-{VERB}"
    spans = (
        span
        for span in from_bio(tags, repair=True)
        if span.label != VERB or span.start <= predicate <= span.end
    )
    return Proposition(predicate, lemma, tuple(spans))
