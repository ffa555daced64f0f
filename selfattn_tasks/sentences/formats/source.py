"""A file that is being read: its lines, what is wrong with one, and what was left out."""

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, NoReturn

from selfattn.errors import UserError

from ...progress import Progress
from ...text import iter_lines
from ..tokens import Tokens

_LINES_BETWEEN_UPDATES = 1000


@dataclass(frozen=True)
class Reading:
    """What to make of a file.

    Args:
        tokens: makes words of texts.
        labelled: every example needs its label, and pairs without a gold label (``-``) are
            left out and counted. Else the examples are all that the file has, and the target of one
            without a label is None.
        targets: read what is right; else it is not looked at, and the target of each is None.
        sst: classes of trees, ``fine`` (the default) or ``binary``.
        phrases: all phrases of trees, not the sentences alone.
        repeat: repeat phrases of trees as the papers' code does.
        label_column: the name of the column or entry of the labels, if the usual
            names are not meant; ``fine`` of TREC's files: their fine labels.
        part: of SICK's later release, whose one file holds all parts: ``train``,
            ``valid`` or ``test``. Default: all.
    """

    tokens: Tokens = field(default_factory=Tokens)
    labelled: bool = True
    targets: bool = True
    sst: str | None = None
    phrases: bool = False
    repeat: bool = False
    label_column: str | None = None
    part: str | None = None


class Item(NamedTuple):
    """What a format holds of one example.

    Args:
        number: of the line.
        texts: of the sentences, the question of candidates first; a list of a sentence that is
            words already.
        target: as it stands in the file; None if there is none.
    """

    number: int
    texts: tuple[str | list[str], ...]
    target: object


class Source:
    """A file, read once and line by line.

    Args:
        path: plain or gzipped, UTF-8 or Latin-1.

    Attributes:
        path: the same.
        dropped: lines and examples that were left out, by reason.
        parts: rows by the part that they name themselves, in a table whose rows do.
        recoded: the lines that are not UTF-8, and were read as Latin-1.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.dropped: Counter[str] = Counter()
        self.parts: Counter[str] = Counter()
        self.recoded: list[int] = []
        self._next = iter_lines(path, self.recoded.append)
        self._first = next(((n, t) for n, t in enumerate(self._next, start=1) if t.strip()), None)

    @property
    def first(self) -> str:
        """The first line that is not blank.

        Raises:
            UserError: if there is none.
        """
        if self._first is None:
            raise UserError(f"{self.path} is empty")
        return self._first[1]

    def lines(self) -> Iterator[tuple[int, str]]:
        """All lines that are not blank, with their numbers."""
        if self._first is None:
            return
        begin, text = self._first
        self.dropped["blank lines"] += begin - 1
        label = f"reading {self.path}"
        with Progress(None, label, None, "lines", stream=sys.stderr) as progress:
            yield begin, text
            for number, text in enumerate(self._next, start=begin + 1):
                if not number % _LINES_BETWEEN_UPDATES:
                    progress.to(number)
                if text.strip() or "\t" in text:  # cells may be empty
                    yield number, text
                else:
                    self.dropped["blank lines"] += 1

    def fail(self, number: int, message: str) -> NoReturn:
        """Say what is wrong with a line.

        Raises:
            UserError: always.
        """
        raise UserError(f"{self.path}, line {number}: {message}")
