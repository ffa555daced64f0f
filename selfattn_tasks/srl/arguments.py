"""The arguments of a proposition as the official CoNLL-2005 scorer sees and compares them.

A ``C-X`` piece joins the last ``X`` before it; without one it becomes an ``X`` itself. The official
script also has rules for nested spans, which valid annotations do not contain: an outer span counts
as discontinuous, with the spans directly inside it as its pieces. These rules are followed to the
letter, so that the scores agree on any file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .propositions import CONTINUATION, Span


@dataclass
class Argument:
    """An argument: one span, or several pieces.

    Args:
        label: its label, without ``C-``.
        start: first word of the first piece.
        end: last word of the last piece.
        pieces: empty if it is one span.
    """

    label: str
    start: int
    end: int
    pieces: list[Argument] = field(default_factory=list)

    @property
    def range(self) -> tuple[int, int]:
        """First and last word, as a pair."""
        return self.start, self.end


def arguments_of(spans: Iterable[Span]) -> list[Argument]:
    """The arguments that ``spans`` form, including ``V``."""
    found: list[Argument] = []
    latest: dict[str, Argument] = {}
    for piece in _as_tree(spans):
        if piece.label.startswith(CONTINUATION):
            label = piece.label.removeprefix(CONTINUATION)
            head = latest.get(label)
            if head is not None:
                if not head.pieces:
                    head.pieces.append(Argument(label, *head.range))
                head.pieces.append(piece)
                head.end = piece.end
                continue
            piece.label = label
        found.append(piece)
        latest[piece.label] = piece
    return found


def _as_tree(spans: Iterable[Span]) -> list[Argument]:
    """All spans by start, outer ones first; each holds the spans directly inside it.

    Of several spans over the same words, only the innermost is listed.
    """
    listed: dict[tuple[int, int], Argument] = {}
    around: list[Argument] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        piece = Argument(span.label, span.start, span.end)
        while around and piece.end > around[-1].end:
            around.pop()
        if around:
            around[-1].pieces.append(piece)
        around.append(piece)
        listed[piece.range] = piece
    return list(listed.values())


@dataclass(frozen=True)
class Comparison:
    """Gold and predicted arguments side by side.

    Args:
        matched: pairs of gold and predicted arguments of the same extent.
        missed: gold arguments without a match.
        excess: predicted arguments without a match.
    """

    matched: list[tuple[Argument, Argument]]
    missed: list[Argument]
    excess: list[Argument]


def compare(
    gold: Sequence[Argument], predicted: Sequence[Argument], *, labelled: bool = True
) -> Comparison:
    """Match arguments of equal extent, piece by piece.

    Args:
        gold: those of a gold proposition.
        predicted: those of a predicted one.
        labelled: match only arguments of the same label.
    """
    open_gold = {argument.range: argument for argument in gold}
    matched: list[tuple[Argument, Argument]] = []
    excess: list[Argument] = []
    for argument in predicted:
        candidate = open_gold.get(argument.range)
        if (
            candidate is not None
            and (not labelled or candidate.label == argument.label)
            and _same_pieces(candidate, argument)
        ):
            matched.append((open_gold.pop(argument.range), argument))
        else:
            excess.append(argument)
    return Comparison(matched, list(open_gold.values()), excess)


def _same_pieces(gold: Argument, predicted: Argument) -> bool:
    # A set and a list: with nested spans a piece can occur twice, which never matches.
    wanted = {piece.range for piece in gold.pieces}
    given = [piece.range for piece in predicted.pieces]
    return len(given) == len(wanted) and set(given) == wanted
