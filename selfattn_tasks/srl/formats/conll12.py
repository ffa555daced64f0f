"""CoNLL-2012 files (``*_gold_conll``).

The columns: document, part, word number, word, part of speech, parse, lemma, frameset, sense,
speaker, entities, then one bracket column per predicate, and coreference. Each document is enclosed
by lines that start with ``#begin document`` and ``#end document``.
"""

from collections.abc import Sequence
from pathlib import Path

from selfattn.errors import UserError

from ...text import read_lines
from ..propositions import VERB, Proposition, Sentence, Span
from .rows import NO_PREDICATE, Block, blocks_of, parse_column

_WORD, _LEMMA, _FRAMESET, _FIRST = 3, 6, 7, 11
MARKS = ("#begin document", "#end document")
# Every word of the files that are free: the words themselves need a licence.
_NO_WORD = "[WORD]"


def sentences_of(path: Path, *, lenient: bool = False) -> list[Sentence]:
    """Read the sentences of a file.

    Args:
        path: the file.
        lenient: accept nested spans, a column without ``V`` if the framesets tell which word
            is the predicate, and a document without its end.

    Raises:
        UserError: for a bad file, naming it, the line and what was expected.
    """
    lines = read_lines(path)
    blocks = blocks_of(path, ("" if line.startswith(MARKS) else line for line in lines))
    sentences = [_sentence(block, lenient) for block in blocks]
    begun, ended = (sum(line.startswith(mark) for line in lines) for mark in MARKS)
    if begun != ended and not lenient:
        raise UserError(f"{path} has {begun} {MARKS[0]} but {ended} {MARKS[1]}: it is not complete")
    return sentences


def check_words(sentences: Sequence[Sentence], where: object) -> None:
    """Refuse sentences of the file, or files, ``where`` whose words were not filled in.

    Raises:
        UserError: if all words of a sentence are ``[WORD]``.
    """
    if unfilled := sum(set(sentence.words) == {_NO_WORD} for sentence in sentences):
        raise UserError(
            f"{where}: in {unfilled:,} of {len(sentences):,} sentences every word is {_NO_WORD}: "
            "fill the words in by OntoNotes' skeleton2conll.sh"
        )


def _sentence(block: Block, lenient: bool) -> Sentence:
    width = block.width
    if width < _FIRST + 1:
        raise block.error(
            0, f"{width} columns, but CoNLL-2012 needs {_FIRST + 1} and one per predicate"
        )
    words = tuple(row[_WORD] for row in block.rows)
    framed = [i for i, row in enumerate(block.rows) if row[_FRAMESET] != NO_PREDICATE]
    found: dict[int, Proposition] = {}
    for number, column in enumerate(range(_FIRST, width - 1)):
        spans = parse_column(block, column, None, lenient)
        predicate = _predicate(spans, framed)
        if predicate is None and lenient and number < len(framed):
            predicate = framed[number]
        if predicate is None:
            raise block.error(0, f"column {column + 1} has no V span, which marks its predicate")
        if predicate in found:
            raise block.error(
                predicate, f"column {column + 1} is the second one for the predicate in this line"
            )
        lemma = block.rows[predicate][_LEMMA]
        if lemma == NO_PREDICATE:
            lemma = words[predicate].lower()
        found[predicate] = Proposition(predicate, lemma, spans)
    return Sentence(words, tuple(found[i] for i in sorted(found)))


def _predicate(spans: Sequence[Span], framed: Sequence[int]) -> int | None:
    """The word with a frameset in the V span, or the first word of that span, if there is one."""
    for span in spans:
        if span.label == VERB:
            return next((i for i in framed if span.start <= i <= span.end), span.start)
    return None
