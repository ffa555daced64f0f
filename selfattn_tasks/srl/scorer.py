"""Precision, recall and F1 of semantic roles, equal to the official CoNLL-2005 script.

``V`` (with its ``C-V`` pieces) is counted under its own label but not in the totals, and a wrong
``V`` does not spoil a proposition. Predicted predicates that are not in gold are ignored; the
arguments of a gold predicate that was not predicted, or only with another lemma, are missed.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from selfattn.errors import UserError

from .arguments import arguments_of, compare
from .propositions import VERB, Proposition, Sentence

NONE = "-NONE-"


@dataclass(frozen=True)
class Counts:
    """How many arguments were found and missed.

    Args:
        correct: predicted and in gold.
        excess: predicted, but not in gold.
        missed: in gold, but not predicted.
    """

    correct: int = 0
    excess: int = 0
    missed: int = 0

    @property
    def precision(self) -> float:
        """In percent; 0 if nothing was predicted."""
        predicted = self.correct + self.excess
        return 100 * self.correct / predicted if predicted else 0.0

    @property
    def recall(self) -> float:
        """In percent; 0 if there is nothing in gold."""
        gold = self.correct + self.missed
        return 100 * self.correct / gold if gold else 0.0

    @property
    def f1(self) -> float:
        """In percent, from unrounded precision and recall."""
        p, r = self.precision, self.recall
        return 2 * p * r / (p + r) if p + r else 0.0

    def as_dict(self) -> dict[str, float]:
        """All six figures by name."""
        names = ("correct", "excess", "missed", "precision", "recall", "f1")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Result:
    """The scores of a corpus.

    Args:
        overall: all arguments but ``V``.
        labels: by label, including ``V``.
        sentences: number of sentences.
        propositions: number of gold predicates.
        perfect_props: predicates without a missed or excess argument.
        confusion: arguments of equal extent by gold and predicted label; ``-NONE-`` stands for no
            argument of that extent.
        spurious: predicted predicates that are not in gold and were ignored.
        absent: gold predicates that were not predicted, or only with another lemma.
    """

    overall: Counts
    labels: dict[str, Counts]
    sentences: int
    propositions: int
    perfect_props: int
    confusion: dict[tuple[str, str], int]
    spurious: int
    absent: int

    @property
    def perfect_percent(self) -> float:
        """Perfect propositions in percent ("Comp."); 0 without a gold predicate."""
        return 100 * self.perfect_props / self.propositions if self.propositions else 0.0

    @property
    def unlabelled(self) -> Counts:
        """Extents without labels; arguments matched with a ``V`` are left out."""
        counts: Counter[str] = Counter()
        for (gold, predicted), number in self.confusion.items():
            if VERB not in (gold, predicted):
                kind = "excess" if gold == NONE else "missed" if predicted == NONE else "correct"
                counts[kind] += number
        return Counts(**counts)

    @property
    def label_accuracy(self) -> float:
        """Share of correct labels among arguments of the correct extent, in percent."""
        right = sum(n for (g, p), n in self.confusion.items() if g == p and g != VERB)
        found = self.unlabelled.correct
        return 100 * right / found if found else 0.0

    def as_dict(self) -> dict[str, Any]:
        """All figures, as ``selfattn score srl --json`` prints them."""
        return {
            "sentences": self.sentences,
            "propositions": self.propositions,
            "perfect_props": self.perfect_props,
            "perfect_props_percent": self.perfect_percent,
            "overall": self.overall.as_dict(),
            "labels": {label: counts.as_dict() for label, counts in self.labels.items()},
            "outside_overall": [label for label in self.labels if label == VERB],
            "unlabelled": {**self.unlabelled.as_dict(), "label_accuracy": self.label_accuracy},
            "spurious_predicates": self.spurious,
            "absent_predicates": self.absent,
        }

    def confusion_as_dict(self) -> dict[str, dict[str, int]]:
        """The confusion by gold label, then by predicted label."""
        found: dict[str, dict[str, int]] = {}
        for (gold, predicted), number in sorted(self.confusion.items()):
            found.setdefault(gold, {})[predicted] = number
        return found


def score(
    gold: Sequence[Sentence], predicted: Sequence[Sentence], *, lemmas: bool = True
) -> Result:
    """Compare predicted propositions with gold ones.

    Args:
        gold: the sentences of a test set.
        predicted: the same sentences, as a system labelled them.
        lemmas: compare lemmas, as the official script does; a system that found the predicates
            itself does not know them.

    Raises:
        UserError: if the two do not hold the same sentences.
    """
    check_same_sentences(gold, predicted)
    correct: Counter[str] = Counter()
    excess: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    confusion: Counter[tuple[str, str]] = Counter()
    propositions = perfect = spurious = absent = 0
    for ours, theirs in zip(gold, predicted, strict=True):
        answers = {p.predicate: p for p in theirs.propositions}
        spurious += len(answers.keys() - {p.predicate for p in ours.propositions})
        for wanted in ours.propositions:
            answer = answers.get(wanted.predicate)
            if answer is None or (lemmas and not _same_lemma(wanted, answer)):
                absent += 1
                answer = Proposition(wanted.predicate, wanted.lemma, ())
            sides = arguments_of(wanted.spans), arguments_of(answer.spans)
            found = compare(*sides)
            correct.update(argument.label for _, argument in found.matched)
            excess.update(argument.label for argument in found.excess)
            missed.update(argument.label for argument in found.missed)
            propositions += 1
            perfect += all(a.label == VERB for a in (*found.excess, *found.missed))
            extents = compare(*sides, labelled=False)
            confusion.update((g.label, p.label) for g, p in extents.matched)
            confusion.update((g.label, NONE) for g in extents.missed)
            confusion.update((NONE, p.label) for p in extents.excess)
    names = sorted(correct.keys() | excess.keys() | missed.keys())
    labels = {name: Counts(correct[name], excess[name], missed[name]) for name in names}
    return Result(
        overall=Counts(*(found.total() - found[VERB] for found in (correct, excess, missed))),
        labels=labels,
        sentences=len(gold),
        propositions=propositions,
        perfect_props=perfect,
        confusion=dict(confusion),
        spurious=spurious,
        absent=absent,
    )


def charged(gold: Sequence[Sentence], predicted: Sequence[Sentence]) -> Counts:
    """The overall counts of :func:`score` if arguments of predicates not in gold are excess, too.

    Lemmas do not matter.
    """
    filled = []
    for ours, theirs in zip(gold, predicted, strict=True):
        known = {p.predicate for p in ours.propositions}
        more = [replace(p, spans=()) for p in theirs.propositions if p.predicate not in known]
        filled.append(replace(ours, propositions=(*ours.propositions, *more)))
    return score(filled, predicted, lemmas=False).overall


def count_predicates(gold: Sequence[Sentence], predicted: Sequence[Sentence]) -> Counts:
    """How many predicates of the same sentences were found, whatever their lemmas."""
    counts: Counter[str] = Counter()
    for ours, theirs in zip(gold, predicted, strict=True):
        wanted, found = ({p.predicate for p in s.propositions} for s in (ours, theirs))
        counts.update(
            correct=len(wanted & found), excess=len(found - wanted), missed=len(wanted - found)
        )
    return Counts(**counts)


def _same_lemma(gold: Proposition, predicted: Proposition) -> bool:
    # Lines of `index words ||| tags` hold no lemma.
    return not (gold.lemma and predicted.lemma) or gold.lemma == predicted.lemma


def check_same_sentences(
    gold: Sequence[Sentence],
    predicted: Sequence[Sentence],
    names: tuple[str | Path, str | Path] = ("gold", "predicted"),
) -> None:
    """Check that two files hold the same sentences, comparing words where both have them.

    Raises:
        UserError: naming the first difference; sentences and words are counted from 1.
    """
    for number, (ours, theirs) in enumerate(zip(gold, predicted, strict=False), start=1):
        if ours.has_words and theirs.has_words:
            pairs = zip(ours.words, theirs.words, strict=False)
            for place, (left, right) in enumerate(pairs, start=1):
                if left != right:
                    raise UserError(
                        f"sentence {number}, word {place}: {names[0]} has {left!r} and {names[1]} "
                        f"has {right!r}, but both must hold the same sentences"
                    )
        if len(ours.words) != len(theirs.words):
            raise UserError(
                f"sentence {number}: {names[0]} has {len(ours.words)} words and {names[1]} has "
                f"{len(theirs.words)}, but both must hold the same sentences"
            )
    if len(gold) != len(predicted):
        shorter = names[len(gold) > len(predicted)]
        raise UserError(
            f"{names[0]} has {len(gold)} sentences and {names[1]} has {len(predicted)}, but both "
            f"must hold the same: they agree up to the end of {shorter}"
        )
