"""One proposition a line: ``index words ||| tags``, the form that deepatt trains on.

The index is the position of the predicate, counted from 0; there is one BIO tag a word, for example
``1 Cats sleep . ||| B-A0 B-V O``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from selfattn.errors import UserError
from selfattn.files import write_text

from ...text import read_lines
from ..propositions import Proposition, Sentence, covers_predicate
from .bio import from_bio, to_bio
from .rows import fields

SEPARATOR = "|||"


@dataclass(frozen=True)
class Line:
    """One proposition with its words.

    Args:
        predicate (int): position of the predicate, counted from 0.
        words (tuple[str, ...]): the sentence.
        tags (tuple[str, ...]): one BIO tag a word.
    """

    predicate: int
    words: tuple[str, ...]
    tags: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join((str(self.predicate), *self.words, SEPARATOR, *self.tags))


def parse_line(text: str) -> Line:
    """Read one line.

    Raises:
        UserError: if it has another form; the message names neither file nor line.
    """
    row = fields(text)
    if SEPARATOR not in row:
        raise UserError(f"there is no {SEPARATOR}, but `index words {SEPARATOR} tags` is needed")
    # The last one: a word may be |||, a tag cannot.
    cut = len(row) - 1 - row[::-1].index(SEPARATOR)
    words, tags = tuple(row[1:cut]), tuple(row[cut + 1 :])
    if not words or len(words) != len(tags):
        raise UserError(
            f"{len(words)} words and {len(tags)} tags, but one tag a word is needed and one word "
            "at least"
        )
    if not (row[0].isascii() and row[0].isdigit() and int(row[0]) < len(words)):
        raise UserError(
            f"the predicate is {row[0]!r}, but must be the position of a word, from 0 to "
            f"{len(words) - 1}"
        )
    return Line(int(row[0]), words, tags)


def read_lines_file(path: Path) -> list[Line]:
    """All lines of a file, empty ones left out; the tags are not checked against the BIO scheme.

    Raises:
        UserError: for a line of another form, with file and line; if there is no line.
    """
    return [line for _, line in _numbered(path)]


def _numbered(path: Path) -> Iterator[tuple[int, Line]]:
    number = 0
    found = False
    for number, text in enumerate(read_lines(path), start=1):
        if not text.strip():
            continue
        found = True
        try:
            yield number, parse_line(text.lstrip("\ufeff") if number == 1 else text)
        except UserError as error:
            raise UserError(f"{path}, line {number}: {error}") from None
    if not found:
        raise UserError(f"{path}, line 1: the file is empty, but one line or more is needed")


def sentences_of(path: Path, *, lenient: bool = False) -> list[Sentence]:
    """The lines of a file as sentences: lines of one sentence follow each other, by predicate.

    The file holds no lemmas and no sentence without a predicate.

    Args:
        path (Path): the file.
        lenient (bool): read an ``I-`` tag that continues nothing as ``B-``, and accept a predicate
            without ``V``: what a tagger may write.

    Raises:
        UserError: as :func:`read_lines_file`, and for tags outside the BIO scheme.
    """
    sentences: list[Sentence] = []
    for number, line in _numbered(path):
        try:
            proposition = Proposition(line.predicate, "", from_bio(line.tags, repair=lenient))
        except UserError as error:
            raise UserError(f"{path}, line {number}: {error}") from None
        if not lenient and not covers_predicate(proposition):
            raise UserError(
                f"{path}, line {number}: the tag of the predicate, word {line.predicate}, is "
                f"{line.tags[line.predicate]!r}, but must be B-V or I-V"
            )
        last = sentences[-1] if sentences else None
        if (
            last is not None
            and last.words == line.words
            and last.propositions[-1].predicate < line.predicate
        ):
            sentences[-1] = Sentence(line.words, (*last.propositions, proposition))
        else:
            sentences.append(Sentence(line.words, (proposition,)))
    return sentences


def regrouped(sentences: Sequence[Sentence], like: Sequence[Sentence]) -> list[Sentence]:
    """The propositions of a file of lines, in the sentences of another file.

    Lines hold no sentence without a predicate, and do not tell where a sentence ends that is there
    twice. Sentences that have lemmas, which lines have not, or that do not fit, stay as they are.
    """
    rest = deque((s.words, p) for s in sentences for p in s.propositions)
    if any(proposition.lemma for _, proposition in rest):
        return list(sentences)
    found = []
    for other in like:
        open_predicates = {p.predicate for p in other.propositions}
        taken = []
        while (
            rest
            and rest[0][1].predicate in open_predicates
            and (rest[0][0] == other.words or not other.has_words)
        ):
            taken.append(rest.popleft()[1])
            open_predicates.remove(taken[-1].predicate)
        found.append(Sentence(other.words, tuple(taken)))
    return list(sentences) if rest else found


def lines_of(sentences: Iterable[Sentence]) -> list[Line]:
    """One line a proposition, in reading order.

    Raises:
        UserError: for spans that BIO tags cannot hold.
    """
    return [
        Line(p.predicate, s.words, tuple(to_bio(p.spans, len(s.words))))
        for s in sentences
        for p in s.propositions
    ]


def write(path: Path, sentences: Iterable[Sentence]) -> None:
    """Write :func:`lines_of` the sentences; all or nothing."""
    write_text(path, "".join(f"{line}\n" for line in lines_of(sentences)))
