"""Bracket columns of CoNLL-2005: ``(A0*``, ``*``, ``*)``, ``(V*)``."""

import re
from collections.abc import Sequence

from selfattn.errors import UserError

from ..propositions import Span

_TAG = re.compile(r"((?:\([^()*\s]+)*)\*((?:[^()*\s]*\))*)")


class BracketError(UserError):
    """A mistake in a bracket column.

    Args:
        row: the word, counted from 0, at which the column goes wrong.
        message: what is wrong there.
    """

    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row = row


def looks_like_brackets(tag: str) -> bool:
    """Whether ``tag`` may occur in a bracket column."""
    return _TAG.fullmatch(tag) is not None


def parse_brackets(tags: Sequence[str], *, nested: bool = False) -> tuple[Span, ...]:
    """The spans of a column.

    >>> parse_brackets(["(A0*", "*)", "(V*)", "*"])
    (Span(label='A0', start=0, end=1), Span(label='V', start=2, end=2))

    Args:
        tags: one per word.
        nested: allow a span inside a span, as the official scorer does.

    Raises:
        BracketError: for a tag of another form, unbalanced, crossing or forbidden nested brackets.
    """
    spans: list[Span] = []
    unclosed: list[int] = []
    for row, tag in enumerate(tags):
        if tag == "*":
            continue
        found = _TAG.fullmatch(tag)
        if found is None:
            raise BracketError(row, f"{tag!r} is not a bracket tag such as (A0* or * or *) or (V*)")
        for label in found[1].split("(")[1:]:
            if unclosed and not nested:
                outer = spans[unclosed[-1]].label
                raise BracketError(
                    row,
                    f"the span ({label} opens inside the span ({outer}, but the spans of one "
                    "predicate must not nest or cross",
                )
            unclosed.append(len(spans))
            spans.append(Span(label, row, row))
        for label in found[2].split(")")[:-1]:
            if not unclosed:
                raise BracketError(row, f"{tag!r} closes a span, but none is open")
            index = unclosed.pop()
            if label and label != spans[index].label:
                raise BracketError(
                    row,
                    f"{tag!r} closes {label}, but the innermost open span is {spans[index].label}: "
                    "spans must not cross",
                )
            spans[index] = Span(spans[index].label, spans[index].start, row)
    if unclosed:
        span = spans[unclosed[-1]]
        raise BracketError(
            span.start, f"the span ({span.label} that opens here is never closed in its sentence"
        )
    return tuple(spans)


def format_brackets(spans: Sequence[Span], length: int) -> list[str]:
    """Write spans as a column, one tag per word.

    >>> format_brackets([Span("A0", 0, 1), Span("V", 2, 2)], 4)
    ['(A0*', '*)', '(V*)', '*']

    Args:
        spans: of one proposition; of nested spans, the outer one comes first.
        length: number of words.
    """
    opening, closing = [""] * length, [""] * length
    for span in spans:
        opening[span.start] += f"({span.label}"
        closing[span.end] += ")"
    return [f"{opening[i]}*{closing[i]}" for i in range(length)]
