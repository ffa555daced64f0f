"""Under which names tables and JSON lines hold sentences and what is right for them."""

from __future__ import annotations

from collections.abc import Iterable

from ..record import Kind

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
        self.names = {plain(name): name for name in names}
        self.label_column = label_column
        self.texts = tuple(self._find(_NAMES[role]) for role in _TEXTS[kind.shape])
        wanted = _NAMES[kind.target] if label_column is None else (plain(label_column),)
        self.target = self._find(wanted)
        self.part = self._find((PART,))

    def _find(self, names: Iterable[str]) -> str | None:
        return next((self.names[name] for name in names if name in self.names), None)

    def fault(self, labelled: bool) -> str:
        """What is missing, in words; empty if nothing is."""
        for role, name in zip(_TEXTS[self.kind.shape], self.texts, strict=True):
            if name is None:
                return self._missing(_NAMES[role])
        if self.target is None and labelled:
            named = (self.label_column,) if self.label_column else _NAMES[self.kind.target]
            return self._missing(named)
        return ""

    def _missing(self, names: Iterable[str]) -> str:
        there = ", ".join(self.names.values())
        return f"the task {self.kind} needs {' or '.join(names)}, but there are only: {there}"
