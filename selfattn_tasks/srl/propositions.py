"""Sentences with predicates and the labelled spans of their arguments."""

from __future__ import annotations

from dataclasses import dataclass

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
    """

    label: str
    start: int
    end: int


@dataclass(frozen=True)
class Proposition:
    """A predicate and its spans.

    Args:
        predicate: position of the predicate in the sentence, counted from 0.
        lemma: what the predicate column holds; empty if the file has none.
        spans: all pieces, ``V`` and ``C-`` pieces included, by start; of spans
            with one start, the outer one first.
    """

    predicate: int
    lemma: str
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class Sentence:
    """Words and their propositions.

    Args:
        words: the words; empty strings if the file holds propositions alone.
        propositions: ordered by predicate, one a predicate.
    """

    words: tuple[str, ...]
    propositions: tuple[Proposition, ...] = ()

    @property
    def has_words(self) -> bool:
        """False if the file held propositions alone."""
        return any(self.words)


def covers_predicate(proposition: Proposition) -> bool:
    """True if a ``V`` or ``C-V`` span holds the predicate's word."""
    return any(
        span.label.removeprefix(CONTINUATION) == VERB
        and span.start <= proposition.predicate <= span.end
        for span in proposition.spans
    )
