"""One JSON object a line: SNLI's and MultiNLI's .jsonl, questions and candidates, and our own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ..record import Kind
from .columns import Columns
from .source import Item, Reading, Source


def read_json_lines(source: Source, kind: Kind, reading: Reading) -> Iterator[Item]:
    """The objects; an entry's name is found as a table's column.

    ``{"sentences": [[word, ...], ...], "target": ...}``, a line of a prepared folder, is read for
    every task.

    Raises:
        UserError: with file and line, for what is no such object.
    """
    names: tuple[str, ...] = ()
    columns = Columns(kind, names)
    for number, line in source.lines():
        try:
            row = json.loads(line)
            if "\\ud" in line.lower():  # half of a pair is no character, and cannot be written
                json.dumps(row, ensure_ascii=False).encode("utf-8")
        except (ValueError, RecursionError) as error:
            source.fail(number, f"no JSON ({error})")
        if not isinstance(row, dict):
            source.fail(number, "a JSON object in braces is needed on each line")
        if row.keys() == {"sentences", "target"}:
            yield Item(number, _texts(source, number, row["sentences"]), row["target"])
            continue
        if tuple(row) != names:
            names = tuple(row)
            columns = Columns(kind, names, reading.label_column)
            if fault := columns.fault(reading.labelled):
                source.fail(number, fault)
        values = [row[name] for name in columns.texts if name is not None]
        if kind.shape == "candidates":
            values = [values[0], *_texts(source, number, values[1])]
        target = None if columns.target is None else row[columns.target]
        yield Item(number, _texts(source, number, values), target)


def _texts(source: Source, number: int, values: Any) -> tuple[str | list[str], ...]:
    """Texts, or the words of texts."""
    if not isinstance(values, list):
        source.fail(number, "a list of sentences is needed")
    for value in values:
        words = value if isinstance(value, list) else [value]
        if not all(isinstance(word, str) for word in words):
            source.fail(number, f"a sentence is {value!r}, but must be a text")
        if words is value and not all(word.split() == [word] for word in words):
            source.fail(number, f"the words {value!r} have an empty one, or one with a blank")
    return tuple(values)
