"""What to tag: the predicates of a file, or prose."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from selfattn.errors import UserError

from ...text import iter_lines
from ..formats import conll, conll12
from ..formats.brackets import looks_like_brackets
from ..formats.conllu import Tree, read_trees
from ..formats.rows import NO_PREDICATE, counts_words, read_blocks
from ..propositions import Proposition, Sentence
from ..text.documents import Text

# In characters: what is read before any of it is labelled.
_LONG_PARAGRAPH = 100_000


def read_queries(
    path: Path,
    props: Path | None = None,
    *,
    word_column: int | None = None,
    may_lack_predicates: bool = False,
) -> list[Sentence]:
    """Read the sentences whose predicates are to be labelled; their spans do not matter.

    Besides the formats of ``conll.read``, two columns without brackets are accepted: the word, and
    the predicate's lemma or ``-``, optionally after a column that numbers the words. Where
    predicates will be found, so are words alone and CoNLL-U.

    Args:
        path: the file.
        props: as for ``conll.read``.
        word_column: as for ``conll.read``.
        may_lack_predicates: accept a file without a predicate: they will be found.

    Raises:
        UserError: for a bad file, and for one without words or without a predicate.
    """
    is_plain = props is None and word_column is None and not path.is_dir()
    if is_plain and may_lack_predicates and (trees := _trees(path)):
        return [Sentence(tree.words) for tree in trees]
    try:
        bare = _without_brackets(path, may_lack_predicates) if is_plain else None
        sentences = bare or conll.read(path, props, lenient=True, word_column=word_column)
    except UserError:
        if not (is_plain and _trees(path)):
            raise
        raise UserError(
            f"{path} is CoNLL-U, which names no predicate; give --find-predicates"
        ) from None
    if not any(sentence.has_words for sentence in sentences):
        raise UserError(f"{path} holds no words; give the words file before it")
    conll12.check_words(sentences, path)
    if not (may_lack_predicates or any(sentence.propositions for sentence in sentences)):
        raise UserError(f"{path} holds no predicate, so there is nothing to label")
    return sentences


def _trees(path: Path) -> list[Tree]:
    """The sentences of CoNLL-U; none of another format, whose reader says what is wrong."""
    with suppress(UserError):
        return read_trees(path)
    return []


def _without_brackets(path: Path, may_lack_predicates: bool) -> list[Sentence] | None:
    """The sentences of a file of words, or of words and lemmas; None for another format."""
    blocks = read_blocks(path)
    rows = [row for block in blocks for row in block.rows]
    width = len(rows[0])
    if width > 3 or any(len(row) != width for row in rows):
        return None
    if all(row[-1] == NO_PREDICATE or looks_like_brackets(row[-1]) for row in rows):
        return None
    counted = counts_words(blocks)
    if width == 1 + counted:
        if may_lack_predicates:
            return [Sentence(tuple(row[counted] for row in block.rows)) for block in blocks]
        raise UserError(
            f"{path} has no column of predicates: add one after the words, with the predicates' "
            "lemmas and - for the other words, or give --find-predicates"
        )
    if width != 2 + counted:
        return None
    if all(row[-1] != NO_PREDICATE for row in rows):
        raise UserError(
            f"{path} has a predicate in every line: the last column must hold lemmas, and - for "
            "the other words; plain text goes with --prose"
        )
    return [
        Sentence(
            tuple(row[counted] for row in block.rows),
            tuple(
                Proposition(i, row[-1], ())
                for i, row in enumerate(block.rows)
                if row[-1] != NO_PREDICATE
            ),
        )
        for block in blocks
    ]


def prose(path: Path) -> Iterator[Text]:
    """The paragraphs of a file of prose, between which there are empty lines.

    A paragraph without end is cut behind a line. An end of line counts as one character.

    Raises:
        UserError: if it is missing or not UTF-8 text, plain or gzipped.
    """
    lines: list[str] = []
    start = size = 0
    for line in iter_lines(path):
        ends = not line.strip() or size >= _LONG_PARAGRAPH
        lines.append(line)
        size += len(line) + 1
        if ends:
            if any(map(str.strip, lines)):
                yield Text("\n".join(lines), start=start)
            start += size
            lines, size = [], 0
    if lines:
        yield Text("\n".join(lines), start=start)
