"""Tab-separated tables with a header line: SNLI's and MultiNLI's .txt, SICK, and plain TSV."""

from __future__ import annotations

from collections.abc import Iterator

from ..record import Kind
from .columns import PARTS, Columns
from .source import Item, Reading, Source


def is_table(first: str, kind: Kind) -> bool:
    """Whether a line is the header of a table with the sentences of a task."""
    return None not in Columns(kind, first.split("\t")).texts


def read_table(source: Source, kind: Kind, reading: Reading) -> Iterator[Item]:
    """The rows; there is no quoting, and a field holds no tab.

    Args:
        source: the file.
        kind: of the task.
        reading: what to make of it.

    Raises:
        UserError: with file and line, if a column is missing or a row has another number of fields.
    """
    lines = source.lines()
    number, header = next(lines)
    names = header.split("\t")
    columns = Columns(kind, names, reading.label_column)
    if fault := columns.fault(reading.labelled):
        source.fail(number, fault)
    texts = [names.index(name) for name in columns.texts if name is not None]
    target = None if columns.target is None else names.index(columns.target)
    own = None if columns.part is None else names.index(columns.part)
    needed = max(texts + [index for index in (target, own) if index is not None]) + 1
    for number, line in lines:
        fields = line.split("\t")
        # Empty fields at the end of a line are missing in some copies.
        if not needed <= len(fields) <= len(names):
            source.fail(
                number, f"{len(fields)} fields between tabs, but the header names {len(names)}"
            )
        if own is not None and not _belongs(source, number, fields[own], reading.part):
            continue
        value = None if target is None else fields[target]
        yield Item(number, tuple(fields[index] for index in texts), value)


def _belongs(source: Source, number: int, name: str, part: str | None) -> bool:
    own = PARTS.get(name.strip().lower())
    if own is None:
        source.fail(number, f"the part is {name!r}, but must be one of {', '.join(PARTS)}")
    source.parts[own] += 1
    return part in (None, own)
