"""A label and a text on each line: TREC's questions, and the files of CR, MPQA, MR and SUBJ."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .source import Item, Source

_TREC = re.compile(r"([A-Z]+):(\w+)(?:\s+(.*))?")
_NUMBERED = re.compile(r"(\d)(?:\s(.*))?")


def is_trec(first: str) -> bool:
    """Whether a line is ``DESC:manner How ...``."""
    return _TREC.fullmatch(first) is not None


def is_numbered(first: str) -> bool:
    """Whether a line is a one-digit label and a text."""
    return _NUMBERED.fullmatch(first) is not None


def read_trec(source: Source, *, fine: bool) -> Iterator[Item]:
    """Questions with one of 6 coarse labels, or with their fine ones (``DESC:manner``).

    Raises:
        UserError: with file and line, for a line of another form.
    """
    for number, line in source.lines():
        found = _TREC.fullmatch(line)
        if found is None:
            source.fail(number, f"no label such as DESC:manner before the question: {line!r}")
        coarse, rest, text = found.groups()
        yield Item(number, (text or "",), f"{coarse}:{rest}" if fine else coarse)


def read_numbered(source: Source) -> Iterator[Item]:
    """Texts behind a digit; an empty text is an example as any other.

    Raises:
        UserError: with file and line, for a line of another form.
    """
    for number, line in source.lines():
        found = _NUMBERED.fullmatch(line)
        if found is None:
            source.fail(number, f"no digit and a blank before the text: {line!r}")
        yield Item(number, (found[2] or "",), found[1])
