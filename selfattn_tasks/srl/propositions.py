"""Sentences, their predicates, and the labelled spans of the arguments."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

# The label of the predicate itself, and the prefix of a further piece of an argument.
VERB = "V"
CONTINUATION = "C-"


@dataclass(frozen=True, order=True)
class Span:
    """One labelled piece of a proposition.

    Args:
        label: for example ``A0``, ``AM-TMP``, ``R-A1``, ``C-A1``, ``V``.
        start: first word, counted from 0.
        end: last word, inclusive.
        confidence: of a predicted span, its probability if it was asked for; it takes no part in
            comparisons.
    """

    label: str
    start: int
    end: int
    confidence: float | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Proposition:
    """A predicate and its spans.

    Args:
        predicate: position of the predicate in the sentence, counted from 0.
        lemma: the entry of the predicate column; empty if the file has none.
        spans: all pieces, including ``V`` and ``C-`` pieces, by start; of spans with the same
            start, the outer one comes first.
        confidence: of a predicted proposition, the probability that all spans are right, if it was
            asked for; it takes no part in comparisons.
    """

    predicate: int
    lemma: str
    spans: tuple[Span, ...]
    confidence: float | None = field(default=None, compare=False, repr=False)


def unlabelled(words: Sequence[str], places: Iterable[int]) -> tuple[Proposition, ...]:
    """Predicates at ``places``, without spans; the lower-cased word stands for the lemma."""
    return tuple(Proposition(place, words[place].lower(), ()) for place in places)


@dataclass(frozen=True)
class Sentence:
    """Words and their propositions.

    Args:
        words: the words; empty strings if the file holds only propositions.
        propositions: one per predicate, in order of predicates.
    """

    words: tuple[str, ...]
    propositions: tuple[Proposition, ...] = ()

    @property
    def has_words(self) -> bool:
        """False if the file held only propositions."""
        return any(self.words)


def covers_predicate(spans: Iterable[Span], predicate: int) -> bool:
    """Whether one of the ``V`` and ``C-V`` spans holds the predicate's word."""
    return any(
        span.label.removeprefix(CONTINUATION) == VERB and span.start <= predicate <= span.end
        for span in spans
    )
