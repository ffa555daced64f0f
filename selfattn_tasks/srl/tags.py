"""Turn a tagger's BIO tags for one predicate into a proposition."""

from collections.abc import Sequence

from .formats.bio import from_bio
from .propositions import CONTINUATION, VERB, Proposition

# The names that ``selfattn_tasks.srl.decode.decode`` knows.
DECODERS = ("argmax", "published", "tan", "he", "strict", "structured")

# Those that look at each word by itself.
WORD_BY_WORD = ("argmax", "published")


def proposition_of(
    tags: Sequence[str], predicate: int, lemma: str = "", *, decoder: str = "argmax"
) -> Proposition:
    """The spans of predicted tags, in a form that every file format can hold.

    An ``I-`` that continues nothing opens a span; the predicate's word becomes ``V`` whatever its
    tag, and no other word does. This leaves the official score as it is, since ``V`` does not
    count, unless an argument was put over the predicate, where there can be none. The published
    post-processing does neither, so ``published`` leaves the tags as they are.

    Args:
        tags: one per word.
        predicate: position of the predicate, counted from 0.
        lemma: the entry of the predicate column.
        decoder: the decoder that made the tags.

    Differs:
        The code of Tan et al. (2018) and of Shen et al. (2019) lets an ``I-`` of any label continue
        the span before it, as the decoder ``published`` does; all others never make such a span.

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
