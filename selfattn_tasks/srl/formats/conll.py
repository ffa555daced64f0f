"""CoNLL-2005 columns, read and written, and the one function that reads every format.

A sentence has one row per word and ends at an empty line. The columns are the word, any number of
others, the lemma of the predicate (or ``-``), and then one bracket column per predicate, in the
order of the predicates. A props file starts at the lemma column; the official data pairs it with a
words file. Columns are separated by spaces or tabs. If the first one numbers the words of each
sentence, the words are in the second.
"""

import itertools
import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from selfattn.errors import UserError, check_choice, check_integer

from ...files import write_text
from ..propositions import Proposition, Sentence
from . import conll12, lines
from .brackets import format_brackets, looks_like_brackets
from .rows import NO_PREDICATE, Block, counts_words, parse_column, read_blocks

logger = logging.getLogger(__name__)

FORMATS = ("auto", "conll05", "conll12", "lines")


def read(
    path: Path | str,
    props: Path | str | None = None,
    *,
    form: str = "auto",
    lenient: bool = False,
    word_column: int | None = None,
) -> list[Sentence]:
    """Read the sentences of a file, or of a words file and its props file.

    Args:
        path: CoNLL-2005 columns with or without words, CoNLL-2012, or lines of
            ``index words ||| tags``; plain or gzipped. With ``props``, a words file. A folder
            stands for all CoNLL-2012 files below it.
        props: the props file that belongs to a words file.
        form: one of FORMATS; ``auto`` looks at the content.
        lenient: for predictions: accept what the official scorer accepts (nested spans, a
            predicate without ``V``) and, in lines, an ``I-`` tag that continues nothing.
        word_column: the column of the words in CoNLL-2005 columns, counted from 1. Default: the
            first one, or the second if the first numbers the words.

    Raises:
        UserError: for a bad file, naming it, the line and what was expected.
    """
    if word_column is not None:
        check_integer("--word-column", word_column)
    check_choice("format", form, FORMATS)
    path = Path(path)
    implied = "conll05" if props is not None else "conll12" if path.is_dir() else form
    if form not in ("auto", implied):
        what = "a words and a props file are" if props is not None else f"the folder {path} is"
        raise UserError(f"the format is {form}, but {what} read as {implied}")
    if props is not None:
        words = read_blocks(path)
        at = _word_column(words, word_column)
        return pair(words, read_blocks(Path(props)), (path, props), at, lenient)
    blocks = [] if path.is_dir() else read_blocks(path)
    form = _guess(blocks) if implied == "auto" else implied
    if word_column is not None and form != "conll05":
        raise UserError(
            f"--word-column is for CoNLL-2005 columns, but {path} has the format {form}"
        )
    if form == "lines":
        return lines.sentences_of(path, lenient=lenient)
    if form == "conll12":
        return [
            sentence
            for file in files_of(path)
            for sentence in conll12.sentences_of(file, lenient=lenient)
        ]
    column = _lemma_column(blocks)
    at = _word_column(blocks, word_column)
    if word_column is not None and at >= column:
        raise UserError(
            f"--word-column is {word_column}, but in {path} the predicates are in column "
            f"{column + 1}, and the words must come before them"
        )
    return [
        Sentence(
            _words(block, at) if at < column else ("",) * len(block.rows),
            _propositions(block, column, lenient),
        )
        for block in blocks
    ]


def files_of(path: Path) -> list[Path]:
    """The file ``path`` itself, or the ``*gold_conll`` files below that folder, by name.

    Raises:
        UserError: if a folder holds none.
    """
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.rglob("*gold_conll") if file.is_file())
    if not files:
        raise UserError(f"{path} is a folder without *gold_conll files (CoNLL-2012)")
    return files


def _guess(blocks: Sequence[Block]) -> str:
    first = blocks[0].rows[0]
    if first[:2] == ["#begin", "document"]:
        return "conll12"
    return "lines" if lines.SEPARATOR in first[1:] else "conll05"


def _word_column(blocks: Sequence[Block], given: int | None) -> int:
    """The column of the words, counted from 0."""
    if given is not None:
        return given - 1
    counted = counts_words(blocks)
    if counted:
        logger.info(
            "%s: the first column numbers the words; they are taken from the second", blocks[0].path
        )
    return int(counted)


def _words(block: Block, column: int) -> tuple[str, ...]:
    for i, row in enumerate(block.rows):
        if len(row) <= column:
            raise block.error(i, f"{len(row)} columns, but the words are in column {column + 1}")
    return tuple(row[column] for row in block.rows)


def _lemma_column(blocks: Sequence[Block]) -> int:
    """The column of the predicates, by two votes from each of the first sentences.

    One vote is for the column before the brackets at the end, one for each column that names as
    many predicates as there are columns after it; a mistake in a short file spoils only one.
    """
    votes: Counter[int] = Counter()
    for block in itertools.islice(blocks, 200):
        width = min(map(len, block.rows))
        brackets = 0
        while brackets < width - 1 and all(
            looks_like_brackets(row[width - 1 - brackets]) for row in block.rows
        ):
            brackets += 1
        votes[width - 1 - brackets] += 1
        for column in range(width):
            predicates = sum(row[column] != NO_PREDICATE for row in block.rows)
            votes[column] += width == column + 1 + predicates
    return max(votes, key=lambda column: (votes[column], column))


def _propositions(block: Block, column: int, lenient: bool) -> tuple[Proposition, ...]:
    """The propositions of a sentence whose predicates are in ``column``, counted from 0."""
    found = block.width
    if found <= column:
        raise block.error(0, f"{found} columns, but the predicates are in column {column + 1}")
    predicates = [i for i, row in enumerate(block.rows) if row[column] != NO_PREDICATE]
    expected = column + 1 + len(predicates)
    if found != expected:
        place = f"column {column + 1}"
        if predicates:
            place += f", of which the first is {block.rows[predicates[0]][column]!r},"
        raise block.error(
            0,
            f"this sentence has {found} columns, but its {len(predicates)} predicates in {place} "
            f"need {expected}: those up to the predicates and one per predicate",
        )
    return tuple(
        Proposition(i, block.rows[i][column], parse_column(block, column + 1 + k, i, lenient))
        for k, i in enumerate(predicates)
    )


def pair(
    words: Sequence[Block],
    props: Sequence[Block],
    names: tuple[Path | str, Path | str],
    column: int = 0,
    lenient: bool = False,
) -> list[Sentence]:
    """Join the words of sentences with their propositions.

    Args:
        words: rows that hold the words.
        props: rows that begin with the predicates.
        names: what the two come from, for messages.
        column: the column of the words, counted from 0.
        lenient: as for :func:`read`.

    Raises:
        UserError: if the two do not hold the same sentences, or one of them is bad.
    """
    for number, (left, right) in enumerate(zip(words, props, strict=False), start=1):
        if len(left.rows) != len(right.rows):
            raise UserError(
                f"sentence {number} has {len(left.rows)} words in {left.path}, line {left.line}, "
                f"but {len(right.rows)} rows in {right.path}, line {right.line}: the words and the "
                "propositions do not belong together"
            )
    if len(words) != len(props):
        raise UserError(
            f"{names[0]} has {len(words)} sentences, but {names[1]} has {len(props)}: the words "
            "and the propositions do not belong together"
        )
    return [
        Sentence(_words(left, column), _propositions(right, 0, lenient))
        for left, right in zip(words, props, strict=True)
    ]


def write_columns(path: Path | str, sentences: Iterable[Sentence]) -> None:
    """Write the words, predicates and brackets of ``sentences`` to ``path``; all or nothing."""
    write_text(Path(path), "".join(formatted(sentence, words=True) for sentence in sentences))


def write_props(path: Path | str, sentences: Iterable[Sentence]) -> None:
    """Write what the official scorer reads, predicates and brackets; all or nothing."""
    write_text(Path(path), "".join(formatted(sentence, words=False) for sentence in sentences))


def formatted(sentence: Sentence, *, words: bool) -> str:
    """The rows of one sentence, and the empty line behind them.

    Args:
        sentence: words and propositions; the lower-cased word stands for a lemma that is missing.
        words: write the words before the predicates.
    """
    length = len(sentence.words)
    lemmas = [NO_PREDICATE] * length
    for proposition in sentence.propositions:
        lemma = proposition.lemma or sentence.words[proposition.predicate].lower()
        lemmas[proposition.predicate] = "_" if lemma in ("", NO_PREDICATE) else lemma
    columns: list[Sequence[str]] = [sentence.words] if words else []
    columns.append(lemmas)
    columns.extend(format_brackets(p.spans, length) for p in sentence.propositions)
    return "\n".join("\t".join(row) for row in zip(*columns, strict=True)) + "\n\n"
