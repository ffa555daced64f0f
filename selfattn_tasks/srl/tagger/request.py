"""What to tag: the predicates of a file, or sentences that the user typed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from selfattn.errors import UserError

from ...text import iter_lines
from ..formats import conll, conll12
from ..formats.brackets import looks_like_brackets
from ..formats.conllu import read_trees
from ..formats.rows import NO_PREDICATE, counts_words, read_blocks
from ..propositions import Proposition, Sentence, unlabelled
from ..text.documents import Text, names_in
from ..text.model import named_places

# In characters: what is read before any of it is labelled.
_LONG_PARAGRAPH = 100_000
_TOKEN = re.compile(
    r"\w+(?=n['’]t\b)|n['’]t\b|['’](?:s|m|d|re|ve|ll)\b|\w+(?:[-.,]\w+)*|[^\w\s]", re.IGNORECASE
)


def read_queries(
    path: Path,
    props: Path | None = None,
    form: str = "auto",
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
        form: as for ``conll.read``.
        word_column: as for ``conll.read``.
        may_lack_predicates: accept a file without a predicate, because they will be found.

    Raises:
        UserError: for a bad file, and for one without words or without a predicate.
    """
    may_be_bare = props is None and form in ("auto", "conll05") and word_column is None
    bare = None
    if may_be_bare and not path.is_dir():
        if may_lack_predicates:
            with suppress(UserError):  # another format, whose reader says what is wrong
                return [Sentence(tree.words) for tree in read_trees(path)]
        bare = _without_brackets(path, may_lack_predicates)
    sentences = bare or conll.read(path, props, form=form, lenient=True, word_column=word_column)
    if not any(sentence.has_words for sentence in sentences):
        raise UserError(f"{path} holds no words; give the words file before it")
    conll12.check_words(sentences, path)
    if not (may_lack_predicates or any(sentence.propositions for sentence in sentences)):
        raise UserError(f"{path} holds no predicate, so there is nothing to label")
    return sentences


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
            f"{path} has no column of predicates: add one with their lemmas, and - for the other "
            "words, behind the words, or give --find-predicates"
        )
    if width != 2 + counted:
        return None
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


def split_words(text: str) -> tuple[str, ...]:
    """Split ``text`` into words and punctuation, roughly as English treebanks do.

    >>> split_words("She didn't pay $5.50.")
    ('She', 'did', "n't", 'pay', '$', '5.50', '.')
    """
    return tuple(_TOKEN.findall(text))


def typed_sentence(
    text: str, predicates: Sequence[str], *, split: bool = True, flag: str = "--predicates"
) -> Sentence:
    """A sentence with the predicates that the user named.

    Args:
        text: the sentence.
        predicates: words of it, regardless of case, each of whose occurrences counts, or
            positions counted from 0.
        split: split off punctuation; otherwise only spaces separate words.
        flag: where the predicates are named, for messages.

    Raises:
        UserError: if the sentence is empty, no predicate is named, or one is not in it.
    """
    words = split_words(text) if split else tuple(text.split())
    if not words:
        raise UserError("the sentence is empty; type at least one word")
    named = names_in(predicates)
    if not named:
        raise UserError(f"no predicate is named; give {flag} WORD or POSITION")
    (places,) = named_places(named, [words], flag=flag)
    return Sentence(words, unlabelled(words, places))


def prose(path: Path) -> Iterator[Text]:
    """The paragraphs of a file of prose, between which there are empty lines.

    A paragraph without end is cut behind a line. An end of line counts as one character.

    Args:
        path: UTF-8 text, plain or gzipped.

    Raises:
        UserError: if it is missing or not UTF-8 text.
    """
    lines: list[str] = []
    start = size = 0
    for line in iter_lines(path):
        if line.strip() and size < _LONG_PARAGRAPH:
            lines.append(line)
            size += len(line) + 1
            continue
        lines.append(line)
        if size or line.strip():
            yield Text("\n".join(lines), start=start)
        start += size + len(line) + 1
        lines, size = [], 0
    if lines:
        yield Text("\n".join(lines), start=start)
