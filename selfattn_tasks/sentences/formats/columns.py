"""Tables with a header line and JSON lines: SNLI, MultiNLI, SICK, candidates, plain TSV, our own.

Under which names they hold sentences and what is right for them.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from ..record import Kind
from .source import Item, Reading, Source

# Of two names that a file has, the one that stands first here counts.
_NAMES = {
    "first": ("sentence1", "premise", "sentence_a", "text1", "text_a", "question1"),
    "second": ("sentence2", "hypothesis", "sentence_b", "text2", "text_b", "question2"),
    "text": ("sentence", "text", "question", "review", "phrase"),
    "question": ("question", "query"),
    "candidates": ("sentences", "candidates", "answers"),
    "class": (
        "gold_label", "label", "entailment_label", "entailment_judgment", "entailment", "coarse",
        "class", "category", "sentiment", "polarity", "target",
    ),
    "score": ("relatedness_score", "relatedness", "score", "similarity", "target"),
    "index": ("answer", "target", "label", "index"),
}  # fmt: skip
_TEXTS = {
    "pair": ("first", "second"),
    "single": ("text",),
    "candidates": ("question", "candidates"),
}
# SICK's later release: one file, whose rows say of which part they are.
PART = "semeval_set"
PARTS = {"train": "train", "trial": "valid", "test": "test"}


def plain(name: str) -> str:
    """A name of a column as it is compared."""
    return name.strip().casefold().replace(" ", "_")


class Columns:
    """Which names of a file mean what.

    Args:
        kind: of the task.
        names: of a table's columns or a JSON object's entries.
        label_column: the name of the target's, if it is not to be found by itself.

    Attributes:
        texts: the names of the sentences' columns; of one that is missing, None.
        target: the name of the target's column.
        part: the name of the column that says of which part a row is.
    """

    def __init__(self, kind: Kind, names: Iterable[str], label_column: str | None = None) -> None:
        self.kind = kind
        names = list(names)
        self.names = {plain(name): name for name in names}
        self._counts = Counter(map(plain, names))
        self.texts = tuple(self._find(_NAMES[role]) for role in _TEXTS[kind.shape])
        self._targets = _NAMES[kind.target] if label_column is None else (label_column,)
        self.target = self._find(self._targets)
        self.part = self._find((PART,))

    def _find(self, names: Iterable[str]) -> str | None:
        return next((self.names[name] for name in map(plain, names) if name in self.names), None)

    def fault(self, labelled: bool) -> str:
        """What is missing or there twice, in words; empty if nothing is."""
        for role, name in zip(_TEXTS[self.kind.shape], self.texts, strict=True):
            if name is None:
                return self._missing(_NAMES[role])
        if self.target is None and labelled:
            return self._missing(self._targets)
        for name in (*self.texts, self.target):
            if name is not None and self._counts[plain(name)] > 1:
                return f"{self._counts[plain(name)]} columns are named {name}, but one is needed"
        return ""

    def _missing(self, names: Iterable[str]) -> str:
        there = ", ".join(self.names.values()) or "nothing"
        return f"the task {self.kind} needs {' or '.join(names)}, but there are only: {there}"


def is_table(first: str, kind: Kind) -> bool:
    """Whether a line is the header of a table with the sentences of a task."""
    return None not in Columns(kind, first.split("\t")).texts


def read_table(source: Source, kind: Kind, reading: Reading) -> Iterator[Item]:
    """The rows; there is no quoting, and a field holds no tab.

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


def read_json_lines(source: Source, kind: Kind, reading: Reading) -> Iterator[Item]:
    """The objects; an entry's name is found as a table's column.

    ``{"sentences": [[word, ...], ...], "target": ...}``, a line of a prepared folder, is read for
    every task.

    Raises:
        UserError: with file and line, for what is no such object.
    """
    names: tuple[str, ...] | None = None
    columns = Columns(kind, ())
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
