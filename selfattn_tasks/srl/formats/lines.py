"""One proposition per line: ``index words ||| tags``, the format that deepatt trains on.

The index is the position of the predicate, counted from 0, and there is one BIO tag per word, as in
``1 Cats sleep . ||| B-A0 B-V O``.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from selfattn.errors import UserError

from ...text import NUMBER, read_lines
from ..propositions import Proposition, Sentence, covers_predicate
from .bio import from_bio, to_bio
from .rows import fields

SEPARATOR = "|||"


@dataclass(frozen=True)
class Line:
    """One proposition with its words.

    Args:
        predicate: position of the predicate, counted from 0.
        words: the sentence.
        tags: one BIO tag per word.
    """

    predicate: int
    words: tuple[str, ...]
    tags: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join((str(self.predicate), *self.words, SEPARATOR, *self.tags))


def parse_line(text: str) -> Line:
    """Parse one line.

    Raises:
        UserError: if it is malformed; the message names neither file nor line.
    """
    row = fields(text)
    if SEPARATOR not in row:
        raise UserError(f"there is no {SEPARATOR}, but `index words {SEPARATOR} tags` is needed")
    # The last one: a word may be |||, a tag cannot.
    cut = len(row) - 1 - row[::-1].index(SEPARATOR)
    words, tags = tuple(row[1:cut]), tuple(row[cut + 1 :])
    if not words or len(words) != len(tags):
        raise UserError(
            f"{len(words)} words and {len(tags)} tags, but one tag per word is needed and one word "
            "at least"
        )
    if not (NUMBER.fullmatch(row[0]) and int(row[0]) < len(words)):
        raise UserError(
            f"the predicate is {row[0]!r}, but must be the position of a word, from 0 to "
            f"{len(words) - 1}"
        )
    return Line(int(row[0]), words, tags)


def read_lines_file(path: Path) -> list[Line]:
    """Read all lines of a file but empty ones; the tags need not follow the BIO scheme.

    Raises:
        UserError: for a malformed line, naming file and line, or if there is none.
    """
    return [line for _, line in _numbered(path)]


def _numbered(path: Path) -> Iterator[tuple[int, Line]]:
    rows = [row for row in enumerate(read_lines(path), start=1) if row[1].strip()]
    if not rows:
        raise UserError(f"{path}, line 1: the file is empty, but one line or more is needed")
    for number, text in rows:
        try:
            yield number, parse_line(text)
        except UserError as error:
            raise UserError(f"{path}, line {number}: {error}") from None


def sentences_of(path: Path, *, lenient: bool = False) -> list[Sentence]:
    """Read the lines of a file as sentences, whose propositions are consecutive lines.

    The file holds neither lemmas nor sentences without a predicate.

    Args:
        path: the file.
        lenient: accept what a tagger may write: read an ``I-`` tag that continues nothing as
            ``B-``, and allow a predicate without ``V``.

    Raises:
        UserError: as for :func:`read_lines_file`, and for tags outside the BIO scheme.
    """
    sentences: list[Sentence] = []
    for number, line in _numbered(path):
        try:
            spans = from_bio(line.tags, repair=lenient)
        except UserError as error:
            raise UserError(f"{path}, line {number}: {error}") from None
        if not lenient and not covers_predicate(spans, line.predicate):
            raise UserError(
                f"{path}, line {number}: the tag of the predicate, word {line.predicate}, is "
                f"{line.tags[line.predicate]!r}, but must be B-V or I-V"
            )
        last = sentences[-1] if sentences else Sentence(())
        before: tuple[Proposition, ...] = ()
        if last.words == line.words and last.propositions[-1].predicate < line.predicate:
            before = sentences.pop().propositions
        proposition = Proposition(line.predicate, "", spans)
        sentences.append(Sentence(line.words, (*before, proposition)))
    return sentences


def regrouped(
    sentences: Sequence[Sentence], like: Sequence[Sentence], *, end_to_end: bool = False
) -> list[Sentence]:
    """Group the propositions of a file of lines into the sentences of another file.

    Lines leave out sentences without a predicate and do not tell where a repeated sentence ends.
    Sentences with lemmas, which lines do not have, or that do not fit, stay as they are; so do
    those without any proposition, and where neither words nor predicates tell sentences apart.

    Args:
        sentences: those of the file of lines.
        like: those of the other file.
        end_to_end: their predicates may differ, so that words alone, and the order of predicates,
            tell sentences apart.
    """
    rest = deque((s.words, p) for s in sentences for p in s.propositions)
    if not rest or any(proposition.lemma for _, proposition in rest):
        return list(sentences)
    if end_to_end and not all(other.has_words for other in like):
        return list(sentences)
    found = []
    for other in like:
        unanswered = {p.predicate for p in other.propositions}
        known = other.words if other.has_words else None
        taken: list[Proposition] = []
        while rest:
            words, proposition = rest[0]
            if end_to_end:
                follows = not taken or proposition.predicate > taken[-1].predicate
            else:
                follows = proposition.predicate in unanswered
            if not follows or len(words) != len(other.words) or known not in (None, words):
                break
            rest.popleft()
            taken.append(proposition)
            unanswered.discard(proposition.predicate)
            known = words
        if unanswered and not (end_to_end or other.has_words):
            return list(sentences)  # another sentence may have had its answers
        found.append(Sentence(other.words, tuple(taken)))
    return list(sentences) if rest else found


def lines_of(sentences: Iterable[Sentence]) -> list[Line]:
    """The propositions of ``sentences`` as lines, in order.

    Raises:
        UserError: for spans that BIO tags cannot express.
    """
    return [
        Line(p.predicate, s.words, tuple(to_bio(p.spans, len(s.words))))
        for s in sentences
        for p in s.propositions
    ]
