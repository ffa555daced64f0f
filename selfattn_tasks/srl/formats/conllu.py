"""CoNLL-U, the format of Universal Dependencies: words, parts of speech and dependencies."""

from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from selfattn.errors import UserError

from ...text import NUMBER, iter_lines
from .rows import NO_WORD

# What stands for a value that nobody annotated.
UNKNOWN = "_"
ROOT = "root"
# Heads further away count as this many words away.
_FAR = 8


@dataclass(frozen=True)
class Tree:
    """A sentence and its dependencies; all fields but ``name`` have one entry per word.

    Args:
        name: its ``sent_id``; empty without one.
        words: with ``_`` for blanks inside a word, as the columns of roles have them.
        tags: parts of speech, the language's own (XPOS) or, where there is none, UPOS.
        heads: the word that each depends on, as "3 words on" is ``3``: ``root`` for none, numbers
            beyond 8 cut to 8, and ``_`` if unknown (Strzyz et al. 2019, relative encoding).
        relations: the names of the dependencies.
    """

    name: str
    words: tuple[str, ...]
    tags: tuple[str, ...]
    heads: tuple[str, ...]
    relations: tuple[str, ...]


def read_trees(path: Path) -> list[Tree]:
    """Read the sentences of a CoNLL-U file, plain or gzipped.

    Rows of contractions (2-3) and of words that are only understood (8.1) are left out.

    Raises:
        UserError: if the file cannot be read, a row is not one of CoNLL-U, or there is no sentence.
    """
    trees, rows, name = [], list[list[str]](), ""
    for place, line in enumerate(chain(iter_lines(path), [""]), start=1):  # "" ends the last one
        columns = line.split("\t")
        if not line.strip():
            if rows:
                trees.append(_tree(name, rows))
            rows, name = [], ""
        elif line.startswith("# sent_id"):
            name = line.partition("=")[2].strip()
        elif NUMBER.fullmatch(columns[0]):
            if len(columns) != 10:
                raise UserError(f"{path}, line {place}: {len(columns)} columns, but CoNLL-U has 10")
            if int(columns[0]) != len(rows) + 1:
                raise UserError(
                    f"{path}, line {place}: word {columns[0]}, but {len(rows) + 1} comes next in "
                    "this sentence; an empty line ends it"
                )
            if not columns[1].strip():
                raise UserError(f"{path}, line {place}: word {columns[0]} is empty")
            head = columns[6]
            if head == columns[0] or not (head == UNKNOWN or NUMBER.fullmatch(head)):
                raise UserError(
                    f"{path}, line {place}: the head of word {columns[0]} is {head[:20]!r}, but "
                    f"must be another word's number, 0 for the root, or {UNKNOWN}"
                )
            rows.append(columns)
        elif not (line.startswith("#") or NO_WORD.fullmatch(columns[0])):
            raise UserError(f"{path}, line {place}: {columns[0][:20]!r} is not a word's number")
    if not trees:
        raise UserError(f"{path} holds no sentence of CoNLL-U")
    return trees


def _tree(name: str, rows: list[list[str]]) -> Tree:
    places = {row[0]: place for place, row in enumerate(rows)}
    heads = [
        ROOT if row[6] == "0" else _distance(places.get(row[6]), i) for i, row in enumerate(rows)
    ]
    return Tree(
        name,
        tuple(row[1].replace(" ", "_") for row in rows),
        tuple(row[3] if row[4] == UNKNOWN else row[4] for row in rows),
        tuple(heads),
        tuple(row[7] for row in rows),
    )


def _distance(head: int | None, place: int) -> str:
    return UNKNOWN if head is None else str(max(-_FAR, min(_FAR, head - place)))
