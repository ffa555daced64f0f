"""Files of rows: sentences end at empty lines, columns at spaces or tabs."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from selfattn.errors import UserError

from ...text import read_lines
from ..propositions import Proposition, Span, covers_predicate
from .brackets import BracketError, parse_brackets

NO_PREDICATE = "-"

# Not str.split(): a word may hold a no-break space.
_FIELD = re.compile(r"[^ \t\r\n\f\v]+")
# CoNLL-U's rows beside the words: 2-3 is a contraction of two, 8.1 a word that is only understood.
_NO_WORD = re.compile(r"[0-9]+[-.][0-9]+")


@dataclass(frozen=True)
class Block:
    """The rows of one sentence.

    Args:
        path (Path): the file.
        line (int): the line of the first row, counted from 1.
        rows (list[list[str]]): one a word, each a list of columns.
    """

    path: Path
    line: int
    rows: list[list[str]]

    @property
    def width(self) -> int:
        """The number of columns.

        Raises:
            UserError: if a row has more or fewer than the first one.
        """
        width = len(self.rows[0])
        for i, row in enumerate(self.rows):
            if len(row) != width:
                raise self.error(
                    i, f"{len(row)} columns, but the first row of this sentence has {width}"
                )
        return width

    def error(self, row: int, message: str) -> UserError:
        """An error at a row, counted from 0."""
        return UserError(f"{self.path}, line {self.line + row}: {message}")


def fields(line: str) -> list[str]:
    """The columns of a line."""
    return _FIELD.findall(line)


def read_blocks(path: Path, skip: Callable[[str], bool] | None = None) -> list[Block]:
    """The sentences of a file; lines for which ``skip`` is true end a sentence too.

    Raises:
        UserError: if the file cannot be read, is no UTF-8 text or has no sentence.
    """
    return blocks_of(path, read_lines(path), skip)


def blocks_of(
    path: Path, lines: Iterable[str], skip: Callable[[str], bool] | None = None
) -> list[Block]:
    """As :func:`read_blocks`, of lines that were read already; ``path`` is for messages."""
    blocks: list[Block] = []
    is_open = False
    for number, line in enumerate(lines, start=1):
        row = fields(line.lstrip("\ufeff") if number == 1 else line)
        if not row or (skip is not None and skip(line)):
            is_open = False
            continue
        if not is_open:
            blocks.append(Block(path, number, []))
            is_open = True
        blocks[-1].rows.append(row)
    if not blocks:
        raise UserError(f"{path}, line 1: the file is empty, but one sentence or more is needed")
    return blocks


def counts_words(blocks: Sequence[Block]) -> bool:
    """True if the first column counts the words of each sentence, as in CoNLL-U and CoNLL-2009.

    Raises:
        UserError: if it does, and there are rows beside those of the words.
    """
    longest = 0
    for block in blocks:
        firsts = [row[0] for row in block.rows if not _NO_WORD.fullmatch(row[0])]
        if not all(first.isascii() and first.isdigit() for first in firsts):
            return False
        numbers = list(map(int, firsts))
        if any(after != before + 1 for before, after in itertools.pairwise(numbers)):
            return False
        longest = max(longest, len(numbers))
    if longest < 2:
        return False
    for block in blocks:
        for i, row in enumerate(block.rows):
            if _NO_WORD.fullmatch(row[0]):
                raise block.error(
                    i, f"the row {row[0]} stands for other rows or for no word: take such rows out"
                )
    return True


def parse_column(
    block: Block, column: int, predicate: int | None, lenient: bool
) -> tuple[Span, ...]:
    """The spans of one bracket column; columns and predicates are counted from 0.

    Raises:
        UserError: as ``brackets.parse_brackets``; unless ``lenient``, also if no
            ``V`` span covers the predicate. ``predicate`` None leaves this to the caller.
    """
    try:
        spans = parse_brackets([row[column] for row in block.rows], nested=lenient)
    except BracketError as error:
        raise block.error(error.row, f"column {column + 1}: {error}") from None
    if not (lenient or predicate is None or covers_predicate(Proposition(predicate, "", spans))):
        raise block.error(
            predicate, f"the predicate in this line has no V span over it in column {column + 1}"
        )
    return spans
