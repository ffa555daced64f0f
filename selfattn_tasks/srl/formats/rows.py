"""Files of rows, with empty lines between sentences and spaces or tabs between columns."""

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from selfattn.errors import UserError

from ...text import NUMBER, read_lines
from ..propositions import Span, covers_predicate
from .brackets import BracketError, parse_brackets

NO_PREDICATE = "-"

# Not str.split(): a word may hold a no-break space.
fields = re.compile(r"[^ \t\r\n\f\v]+").findall
# CoNLL-U's rows other than words: 2-3 is a contraction of two words, 8.1 an elided word.
NO_WORD = re.compile(r"[0-9]+[-.][0-9]+")


@dataclass(frozen=True)
class Block:
    """The rows of one sentence.

    Args:
        path: the file.
        line: the line of the first row, counted from 1.
        rows: one per word, each a list of columns.
    """

    path: Path
    line: int
    rows: list[list[str]]

    @property
    def width(self) -> int:
        """The number of columns.

        Raises:
            UserError: if the rows differ in it.
        """
        width = len(self.rows[0])
        for i, row in enumerate(self.rows):
            if len(row) != width:
                raise self.error(
                    i,
                    f"{len(row)} columns, but the first row of this sentence has {width}; a row "
                    "is one word with its columns",
                )
        return width

    def error(self, row: int, message: str) -> UserError:
        """An error whose message names a row, counted from 0, by file and line."""
        return UserError(f"{self.path}, line {self.line + row}: {message}")


def read_blocks(path: Path) -> list[Block]:
    """Read the sentences of a file.

    Where the first column numbers the words, lines above a sentence that start with # are comments,
    as in CoNLL-U; elsewhere # is a word.

    Raises:
        UserError: if the file cannot be read, is not UTF-8 text or has no sentence.
    """
    blocks = blocks_of(path, read_lines(path))
    if not any(map(_comments, blocks)):
        return blocks
    bare = [
        replace(b, line=b.line + n, rows=b.rows[n:])
        for b in blocks
        if (n := _comments(b)) < len(b.rows)
    ]
    return bare if counts_words(bare) else blocks


def _comments(block: Block) -> int:
    """How many of the first lines start with #."""
    marks = (row[0].startswith("#") for row in block.rows)
    return sum(itertools.takewhile(bool, marks))


def blocks_of(path: Path, lines: Iterable[str]) -> list[Block]:
    """Group the lines of a file into sentences.

    Raises:
        UserError: if there is no sentence.
    """
    blocks: list[Block] = []
    rows: list[list[str]] = []
    for number, line in enumerate(lines, start=1):
        row = fields(line)
        if row and not rows:
            blocks.append(Block(path, number, rows))
        if row:
            rows.append(row)
        else:
            rows = []
    if not blocks:
        raise UserError(f"{path}, line 1: the file is empty, but one sentence or more is needed")
    return blocks


def counts_words(blocks: Sequence[Block]) -> bool:
    """Whether the first column numbers the words of each sentence, as in CoNLL-U and CoNLL-2009.

    Raises:
        UserError: if it does, and some rows are not words.
    """
    longest = 0
    for block in blocks:
        firsts = [row[0] for row in block.rows if not NO_WORD.fullmatch(row[0])]
        if not all(map(NUMBER.fullmatch, firsts)):
            return False
        numbers = list(map(int, firsts))
        if any(after != before + 1 for before, after in itertools.pairwise(numbers)):
            return False
        longest = max(longest, len(numbers))
    if longest < 2:
        return False
    for block in blocks:
        for i, row in enumerate(block.rows):
            if NO_WORD.fullmatch(row[0]):
                raise block.error(
                    i, f"the row {row[0]} is not a word but a contraction or ellipsis: remove it"
                )
    return True


def parse_column(
    block: Block, column: int, predicate: int | None, lenient: bool
) -> tuple[Span, ...]:
    """Read the spans of one bracket column.

    Args:
        block: the sentence.
        column: counted from 0.
        predicate: the word that a ``V`` span must cover, counted from 0; None for any.
        lenient: allow nested spans, and a predicate without ``V``.

    Raises:
        UserError: as for ``brackets.parse_brackets``, or if no ``V`` span covers the predicate.
    """
    try:
        spans = parse_brackets([row[column] for row in block.rows], nested=lenient)
    except BracketError as error:
        raise block.error(error.row, f"column {column + 1}: {error}") from None
    if not (lenient or predicate is None or covers_predicate(spans, predicate)):
        raise block.error(
            predicate, f"the predicate in this line has no V span in column {column + 1}"
        )
    return spans
