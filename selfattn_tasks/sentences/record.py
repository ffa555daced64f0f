"""One example of a sentence task, in memory and as a line of a prepared folder."""

import json
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from sys import intern
from typing import NamedTuple

from selfattn.errors import UserError

from ..text import iter_lines

# The order of the classes in the papers' code; other sources number them differently.
NLI_LABELS = ("contradiction", "neutral", "entailment")
# Scores of relatedness, and with them the classes of their distribution.
LOWEST, HIGHEST = 1.0, 5.0
SCORES = range(round(LOWEST), round(HIGHEST) + 1)

Target = str | float | int | None


class Kind(str, Enum):
    """What is asked of sentences; the values are those of ``--task`` of ``prepare sentences``."""

    NLI = "nli"
    RELATEDNESS = "relatedness"
    CLASSIFICATION = "classification"
    SELECTION = "selection"

    def __str__(self) -> str:
        return self.value

    @property
    def shape(self) -> str:
        """What an example holds: ``single`` or ``pair``, or ``candidates`` after a question."""
        return {"classification": "single", "selection": "candidates"}.get(self.value, "pair")

    @property
    def target(self) -> str:
        """What is predicted: ``class``, ``score``, or ``index`` of the right candidate."""
        return {"relatedness": "score", "selection": "index"}.get(self.value, "class")

    @property
    def type(self) -> type:
        """Python's type of a target."""
        return {"class": str, "score": float, "index": int}[self.target]

    @property
    def takes(self) -> str:
        """How many sentences an example holds, in words."""
        return {"single": "one sentence", "pair": "two sentences"}.get(
            self.shape, "a question and two candidates or more"
        )

    def accepts(self, sentences: int) -> bool:
        """Whether an example of this kind may hold so many sentences."""
        return {"single": sentences == 1, "pair": sentences == 2}.get(self.shape, sentences > 2)


class Example(NamedTuple):
    """Sentences that belong together, and what is right for them.

    Args:
        sentences: one tuple of words per sentence; an empty sentence is an empty tuple. Of
            ``candidates`` the question comes first.
        target: a class (str), a score (float) or the index of the right candidate (int); None of
            an example without a label.
    """

    sentences: tuple[tuple[str, ...], ...]
    target: Target

    def line(self) -> str:
        """The example as JSON, without a newline."""
        return json.dumps({"sentences": self.sentences, "target": self.target}, ensure_ascii=False)


def read_examples(path: Path, kind: Kind) -> Iterator[Example]:
    """The examples of a file of a prepared folder, ``train.jsonl`` for instance.

    Raises:
        UserError: with file and line, for what :meth:`Example.line` does not write.
    """
    for number, line in enumerate(iter_lines(path), start=1):
        try:
            row = json.loads(line)
            # One string a word, however often it stands there.
            sentences = tuple(tuple(map(intern, words)) for words in row["sentences"])
            target = row["target"]
            sound = kind.accepts(len(sentences)) and type(target) is kind.type
            if not sound or not all(type(words) is list for words in row["sentences"]):
                raise ValueError
        except (ValueError, TypeError, KeyError, RecursionError):
            raise UserError(
                f"{path}, line {number}: no example of the task {kind}; prepare the folder again"
            ) from None
        yield Example(sentences, target)
