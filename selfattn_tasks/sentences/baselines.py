"""What needs no training, and every table should show: a class, a mean, words in common."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import mean

from .predictions import Prediction
from .record import SCORES, Example, Kind


def baseline(
    kind: Kind, labels: Sequence[str], training: Sequence[Example], examples: Sequence[Example]
) -> list[Prediction]:
    """Predictions of the trivial system of a task.

    Classes: the most frequent one in training. Scores: their mean, which has a squared error
    but no correlation. Candidates: see :class:`Overlap`.

    Args:
        kind: of the task.
        labels: the classes in the order of their numbers.
        training: what the system may know.
        examples: what it is applied to.
    """
    if kind is Kind.SELECTION:
        overlap = Overlap(words for example in training for words in example.sentences[1:])
        return [overlap.choose(example) for example in examples]
    targets = [example.target for example in training]
    if kind is Kind.RELATEDNESS:
        scores = [target for target in targets if isinstance(target, float)]
        counts = Counter(math.floor(score + 0.5) for score in scores)
        shares = tuple(counts[score] / len(scores) for score in SCORES)
        return [Prediction(mean(scores), shares)] * len(examples)
    found = Counter(targets)
    # Of equally frequent classes the first one in their order.
    most = max(labels, key=lambda label: found[label])
    shares = tuple(found[label] / len(targets) for label in labels)
    return [Prediction(most, shares)] * len(examples)


class Overlap:
    """Chooses the candidate that has most in common with the question.

    A word that both have counts once, with its inverse document frequency
    ``log((N + 1) / (n + 1))``, where n of the N training candidates have it: every
    question's candidates, so that one that several questions have counts as often. Of equal
    candidates the first one is chosen.

    Args:
        candidates: those of the training data, as words.
    """

    def __init__(self, candidates: Iterable[Sequence[str]]) -> None:
        self._total = 0
        self._counts: Counter[str] = Counter()
        for words in candidates:
            self._total += 1
            self._counts.update(set(words))

    def weight(self, word: str) -> float:
        """Inverse document frequency of a word, also of one that training lacks."""
        return math.log((self._total + 1) / (self._counts[word] + 1))

    def choose(self, example: Example) -> Prediction:
        """The index of a candidate, and each one's share of the overlap."""
        question, *candidates = map(set, example.sentences)
        weights = [sum(map(self.weight, sorted(question & words))) for words in candidates]
        total = sum(weights)
        shares = [w / total if total else 1 / len(weights) for w in weights]
        return Prediction(weights.index(max(weights)), tuple(shares))
