"""Spans as BIO tags and BIO tags as spans."""

from collections.abc import Iterable, Sequence

from selfattn.errors import UserError

from ..propositions import Span

OUTSIDE = "O"


def to_bio(spans: Iterable[Span], length: int) -> list[str]:
    """Tag each word: ``B-LABEL`` opens a span, ``I-LABEL`` continues it, ``O`` is outside.

    >>> to_bio([Span("A0", 0, 1), Span("V", 2, 2)], 4)
    ['B-A0', 'I-A0', 'B-V', 'O']

    Args:
        spans: of one proposition.
        length: number of words.

    Raises:
        UserError: if two spans share a word, which BIO cannot express, or one leaves the sentence.
    """
    tags = [OUTSIDE] * length
    for span in spans:
        if not 0 <= span.start <= span.end < length:
            raise UserError(
                f"the span {span.label} covers words {span.start} to {span.end}, but the sentence "
                f"has the words 0 to {length - 1}"
            )
        for i in range(span.start, span.end + 1):
            if tags[i] != OUTSIDE:
                raise UserError(
                    f"the spans {tags[i][2:]} and {span.label} share word {i}, but BIO tags allow "
                    "one span per word"
                )
            tags[i] = f"{'B' if i == span.start else 'I'}-{span.label}"
    return tags


def from_bio(tags: Sequence[str], *, repair: bool = False) -> tuple[Span, ...]:
    """The spans of BIO tags, in order.

    >>> from_bio(["B-A0", "I-A0", "B-V", "O"])
    (Span(label='A0', start=0, end=1), Span(label='V', start=2, end=2))

    Args:
        tags: one per word.
        repair: read an ``I-`` that continues no span of its label as ``B-`` instead of refusing
            it; a tagger without constraints may produce such tags.

    Raises:
        UserError: for a tag that is neither ``O`` nor ``B-LABEL`` nor ``I-LABEL``, or an ``I-``
            that continues nothing; words are counted from 0.
    """
    spans: list[Span] = []
    label, start = "", 0
    for i, tag in enumerate(tags):
        kind, _, name = tag.partition("-")
        if tag != OUTSIDE and (kind not in ("B", "I") or not name):
            raise UserError(f"word {i} has the tag {tag!r}, but O, B-LABEL or I-LABEL is needed")
        if kind == "I" and name != label:
            if not repair:
                before = tags[i - 1] if i else "the start of the sentence"
                raise UserError(
                    f"word {i} has the tag {tag!r} after {before}, but it must follow B-{name} or "
                    f"I-{name}"
                )
            kind = "B"
        if label and kind != "I":
            spans.append(Span(label, start, i - 1))
        if kind == "B":
            start = i
        label = name
    if label:
        spans.append(Span(label, start, len(tags) - 1))
    return tuple(spans)


def joined(tags: Sequence[str]) -> list[str]:
    """Make tags well formed by the published post-processing: ``I-`` continues any span.

    The first tag of a span names it; an ``I-`` after ``O`` opens one (``convert_to_conll.py`` of
    Tan et al. 2018, whose model the MTSA paper's table 4 adopts).

    >>> joined(["B-A0", "I-A1", "O", "I-V"])
    ['B-A0', 'I-A0', 'O', 'B-V']
    """
    found: list[str] = []
    label = ""
    for tag in tags:
        if tag == OUTSIDE:
            label = ""
            found.append(OUTSIDE)
        elif tag.startswith("B-") or not label:
            label = tag[2:]
            found.append(f"B-{label}")
        else:
            found.append(f"I-{label}")
    return found
