"""Predicted roles as text for people to read, and as JSON."""

import json
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

from ..formats.bio import to_bio
from ..propositions import Proposition, Sentence, Span
from ..text.documents import TextSentence

_GAP = "  "


def as_text(sentence: Sentence, width: int = 100) -> str:
    """The words of a sentence above one row of roles for each predicate.

    >>> from selfattn_tasks.srl.propositions import Proposition
    >>> spans = (Span("A0", 0, 1), Span("V", 2, 2))
    >>> print(as_text(Sentence(("The", "cat", "sleeps", "."), (Proposition(2, "", spans),))))
    The  cat  sleeps  .
    [A0----]  [V---]

    Args:
        sentence: words and propositions.
        width: longer lines are broken between words; each row then begins with its predicate.
    """
    columns = _columns(sentence)
    pieces = list(_pieces(columns, width))
    names, margin = [""] * len(sentence.propositions), 0
    if len(pieces) > 1 and len(names) > 1:
        names = [f"{sentence.words[p.predicate]}:" for p in sentence.propositions]
        margin = max(map(_width, names)) + len(_GAP)
        pieces = list(_pieces(columns, width - margin))
    rows = [_roles(p.spans, columns) for p in sentence.propositions]
    shown = []
    for first, last in pieces:
        start, end = columns[first][0], columns[last][1] + len(_GAP)
        words = zip(sentence.words[first : last + 1], columns[first : last + 1], strict=True)
        lines = [" " * margin + _GAP.join(_padded(word, b - a) for word, (a, b) in words)]
        for name, row in zip(names, rows, strict=True):
            if row[start:end].strip():
                lines.append(_padded(name, margin) + row[start:end])
        shown.append("\n".join(line.rstrip() for line in lines))
    return "\n\n".join(shown) + ("" if sentence.propositions else "\n(no predicate)")


def as_json(sentence: Sentence) -> str:
    """``sentence`` as a line of JSON: words, and each predicate's spans and BIO tags.

    Positions are counted from 0. Confidences are there if they were computed.
    """
    return json.dumps(_content(sentence), ensure_ascii=False)


def located_json(sentence: TextSentence, document: int, start: int) -> str:
    """The same with places in the text: ``offsets`` of the words, ``chars`` of the spans.

    Places are first and last (exclusive) character; ``start`` is that of the document's first.
    """
    content = _content(sentence.labelled)
    for row, proposition in zip(content["propositions"], sentence.propositions, strict=True):
        for span, located in zip(row["spans"], proposition.spans, strict=True):
            span["text"] = located.text
            span["chars"] = [start + located.start, start + located.end]
    line = {
        "document": document,
        "text": sentence.text,
        "chars": [start + sentence.start, start + sentence.end],
        "offsets": [[start + a, start + b] for a, b in sentence.offsets],
    }
    return json.dumps(line | content, ensure_ascii=False)


def _content(sentence: Sentence) -> dict[str, Any]:
    propositions = [
        {
            "predicate": p.predicate,
            "lemma": p.lemma,
            "spans": [
                {
                    "label": span.label,
                    "start": span.start,
                    "end": span.end,
                    "text": " ".join(sentence.words[span.start : span.end + 1]),
                    **_confidence(span),
                }
                for span in p.spans
            ],
            "tags": to_bio(p.spans, len(sentence.words)),
            **_confidence(p),
        }
        for p in sentence.propositions
    ]
    return {"words": list(sentence.words), "propositions": propositions}


def _confidence(found: Proposition | Span) -> dict[str, float]:
    return {} if found.confidence is None else {"confidence": round(found.confidence, 6)}


def _columns(sentence: Sentence) -> list[tuple[int, int]]:
    """First and last column (exclusive) of each word, wide enough for every label."""
    widths = [_width(word) for word in sentence.words]
    for span in (span for p in sentence.propositions for span in p.spans):
        inside = widths[span.start : span.end + 1]
        room = sum(inside) + len(_GAP) * (len(inside) - 1)
        widths[span.end] += max(0, len(span.label) + 2 - room)
    columns, at = [], 0
    for width in widths:
        columns.append((at, at + width))
        at += width + len(_GAP)
    return columns


def _width(text: str) -> int:
    """Columns of a terminal: two for a wide character, none for an accent of its own."""
    return sum(
        0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF")
        for c in text
    )


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


def _roles(spans: Sequence[Span], columns: Sequence[tuple[int, int]]) -> str:
    row = [" "] * columns[-1][1]
    for span in spans:
        start, end = columns[span.start][0], columns[span.end][1]
        row[start:end] = f"[{span.label.ljust(end - start - 2, '-')}]"
    return "".join(row)


def _pieces(columns: Sequence[tuple[int, int]], width: int) -> Iterator[tuple[int, int]]:
    """Where to break lines: first and last word of each that fits ``width`` if possible."""
    first = 0
    for i, (_, end) in enumerate(columns):
        if end - columns[first][0] > width and i > first:
            yield first, i - 1
            first = i
    yield first, len(columns) - 1
