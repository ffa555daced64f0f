"""Predicted roles as text for people to read, and as JSON."""

from __future__ import annotations

import json
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
        width: longer lines are broken between words.
    """
    columns = _columns(sentence)
    rows = [_lay_out(sentence.words, columns)]
    rows += [_roles(proposition.spans, columns) for proposition in sentence.propositions]
    pieces = []
    for start, end in _pieces(columns, width):
        pieces.append("\n".join(row[start:end].rstrip() for row in rows if row[start:end].strip()))
    return "\n\n".join(pieces) + ("" if sentence.propositions else "\n(no predicate)")


def as_json(sentence: Sentence) -> str:
    """``sentence`` as a line of JSON: words, and each predicate's spans and BIO tags.

    Positions are counted from 0. Confidences are there if they were computed.
    """
    return json.dumps(_content(sentence), ensure_ascii=False)


def located_json(sentence: TextSentence, document: int = 0, start: int = 0) -> str:
    """The same with places in the text: ``offsets`` of the words, ``chars`` of the spans.

    Places are first and last (exclusive) character.

    Args:
        sentence: of a document.
        document: the number of that document.
        start: the place of its first character.
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
    """First and last character (exclusive) of each word, wide enough for every label."""
    widths = [len(word) for word in sentence.words]
    for span in (span for p in sentence.propositions for span in p.spans):
        inside = widths[span.start : span.end + 1]
        room = sum(inside) + len(_GAP) * (len(inside) - 1)
        widths[span.end] += max(0, len(span.label) + 2 - room)
    columns, at = [], 0
    for width in widths:
        columns.append((at, at + width))
        at += width + len(_GAP)
    return columns


def _lay_out(words: Sequence[str], columns: Sequence[tuple[int, int]]) -> str:
    return _GAP.join(
        word.ljust(end - start) for word, (start, end) in zip(words, columns, strict=True)
    )


def _roles(spans: Sequence[Span], columns: Sequence[tuple[int, int]]) -> str:
    row = [" "] * columns[-1][1]
    for span in spans:
        start, end = columns[span.start][0], columns[span.end][1]
        row[start:end] = f"[{span.label.ljust(end - start - 2, '-')}]"
    return "".join(row)


def _pieces(columns: Sequence[tuple[int, int]], width: int) -> Iterator[tuple[int, int]]:
    """Where to break lines: ranges of whole words that fit ``width`` if possible."""
    start = 0
    for i, (_, end) in enumerate(columns):
        if end - start > width and columns[i][0] > start:
            yield start, columns[i][0]
            start = columns[i][0]
    yield start, columns[-1][1]
