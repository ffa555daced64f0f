"""Labelled texts: sentences, propositions and spans with their characters."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from selfattn.errors import check_integer

from ...text import NUMBER
from ..propositions import VERB, Sentence, Span
from .segmentation import Range


@dataclass(frozen=True)
class Text:
    """What is to be labelled.

    Args:
        text: one sentence or many.
        predicates: words of it, regardless of case, each of whose occurrences counts, or, where the
            text is one sentence, positions counted from 0. Default: the model finds predicates.
        start: where it starts in the file that it comes from, in characters.
        flag: where the predicates are named, for messages.
    """

    text: str
    predicates: tuple[str | int, ...] = ()
    start: int = 0
    flag: str = "predicates"


def names_in(predicates: Iterable[str | int]) -> list[Any]:
    """The predicates that a user named, in one string or several; commas separate them in one."""
    found: list[Any] = []
    for item in [predicates] if isinstance(predicates, str) else predicates:
        if isinstance(item, str):
            found += filter(None, map(str.strip, item.split(",")))
        else:
            found.append(item)
    return found


def positions_of(name: str | int, words: Sequence[str], *, may_count: bool = True) -> list[int]:
    """Where a named predicate is in a sentence, as :class:`Text` says.

    Args:
        name: a word or a position.
        words: the sentence.
        may_count: a position is allowed; as a string, it counts if no word is spelled like it.

    Returns:
        all positions, counted from 0; none if it is not there.

    Raises:
        UserError: if it is neither a string nor a whole number.
    """
    if not isinstance(name, str):
        place = check_integer("a predicate's position", name, least=0)
        return [place] if may_count and place < len(words) else []
    found = [i for i, word in enumerate(words) if word.lower() == name.lower()]
    if not found and may_count and NUMBER.fullmatch(name) and int(name) < len(words):
        found = [int(name)]
    return found


@dataclass(frozen=True)
class TextSpan:
    """A labelled piece of a proposition.

    Args:
        label: for example ``A0``, ``AM-TMP``, ``R-A1``, ``C-A1``, ``V``.
        text: its characters, as they stand.
        start: its first character in the document, counted from 0.
        end: the character after its last: ``document.text[start:end]`` is ``text``.
        words: the first and the last of its words in the sentence, counted from 0.
        confidence: probability, from 0 to 1; None if it was not computed.
    """

    label: str
    text: str
    start: int
    end: int
    words: Range
    confidence: float | None = None


@dataclass(frozen=True)
class TextProposition:
    """A predicate and its arguments.

    Args:
        predicate: the predicate's word; its label is ``V``.
        spans: all pieces by start, including ``V`` (which may hold a particle) and ``C-`` pieces.
        confidence: probability of all spans together; None if it was not computed.
    """

    predicate: TextSpan
    spans: tuple[TextSpan, ...]
    confidence: float | None = None

    @property
    def arguments(self) -> tuple[TextSpan, ...]:
        """The spans without ``V``."""
        return tuple(span for span in self.spans if span.label.removeprefix("C-") != VERB)


@dataclass(frozen=True)
class TextSentence:
    """A sentence of a document.

    Args:
        document: the text of the whole document.
        labelled: its words and propositions, as the file formats take them.
        offsets: first and last (exclusive) character of each word in the document.
    """

    document: str
    labelled: Sentence
    offsets: tuple[Range, ...]

    @property
    def start(self) -> int:
        """The first character."""
        return self.offsets[0][0]

    @property
    def end(self) -> int:
        """The character after the last."""
        return self.offsets[-1][1]

    @property
    def text(self) -> str:
        """The sentence as it stands in the document."""
        return self.document[self.start : self.end]

    @property
    def words(self) -> tuple[str, ...]:
        """The words as they stand in the document."""
        return self.labelled.words

    @property
    def propositions(self) -> tuple[TextProposition, ...]:
        """One per predicate, in order of predicates."""
        return tuple(
            TextProposition(
                self._span(Span(VERB, p.predicate, p.predicate)),
                tuple(map(self._span, p.spans)),
                p.confidence,
            )
            for p in self.labelled.propositions
        )

    def _span(self, span: Span) -> TextSpan:
        start, end = self.offsets[span.start][0], self.offsets[span.end][1]
        return TextSpan(
            span.label, self.document[start:end], start, end, (span.start, span.end),
            span.confidence,
        )  # fmt: skip


@dataclass(frozen=True)
class Document:
    """A labelled text.

    Args:
        text: as it was given.
        sentences: those that have a word.
        start: as for :class:`Text`.
    """

    text: str
    sentences: tuple[TextSentence, ...]
    start: int = 0

    @property
    def propositions(self) -> Iterator[TextProposition]:
        """Those of all sentences."""
        return (found for sentence in self.sentences for found in sentence.propositions)

    def __str__(self) -> str:
        """The words above their roles, as ``selfattn predict`` prints them."""
        from ..tagger.show import as_text  # imports this module

        return "\n\n".join(as_text(sentence.labelled) for sentence in self.sentences)
