"""Whether confidences are what they say: of all spans with 0.8, do 8 of 10 stand in gold?"""

import math
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from selfattn.errors import UserError, check_integer

from ...batches import batches
from ..decode import decode_propositions
from ..propositions import VERB, Proposition, Sentence, Span
from .confidence import with_confidence
from .predictor import Predictor, Query

# What `fit_temperature` tries.
TEMPERATURES = tuple(tenths / 10 for tenths in range(5, 31))

# A confidence, and whether what it belongs to is right.
Judged = tuple[float, bool]


@dataclass(frozen=True)
class Bin:
    """Answers of similar confidence.

    Args:
        number: how many.
        confidence: their mean confidence.
        accuracy: the share of right ones.
    """

    number: int
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class Reliability:
    """A reliability diagram as a table (Guo et al. 2017, section 2).

    Args:
        bins: of equal width between 0 and 1; None where there is no answer.
    """

    bins: tuple[Bin | None, ...]

    @property
    def number(self) -> int:
        """How many answers there are."""
        return sum(each.number for each in self.bins if each)

    @property
    def error(self) -> float:
        """Expected calibration error (Guo et al. 2017, equation 3); 0 without an answer."""
        gaps = (each.number * abs(each.accuracy - each.confidence) for each in self.bins if each)
        return sum(gaps) / max(self.number, 1)

    def __str__(self) -> str:
        rows = [f"{'bin':>11}  {'number':>7}  {'confidence':>10}  {'accuracy':>8}"]
        for at, each in enumerate(self.bins):
            low, high = at / len(self.bins), (at + 1) / len(self.bins)
            numbers = f"{each.confidence:10.3f}  {each.accuracy:8.3f}" if each else ""
            rows.append(
                f"{low:.2f} - {high:.2f}  {each.number if each else 0:7d}  {numbers}".rstrip()
            )
        rows.append(f"expected calibration error {self.error:.4f} of {self.number} answers")
        return "\n".join(rows)


def reliability(answers: Iterable[Judged], bins: int = 10) -> Reliability:
    """Sort answers into bins of equal width, each without its lower bound, 0 in the first.

    Args:
        answers: confidences in [0, 1], and whether each is right.
        bins: how many.

    Raises:
        UserError: for fewer than one bin, or a confidence outside [0, 1].
    """
    check_integer("bins", bins)
    bounds = [(i + 1) / bins for i in range(bins)]
    sorted_in: list[list[Judged]] = [[] for _ in bounds]
    for confidence, right in answers:
        if not 0 <= confidence <= 1:
            raise UserError(f"a confidence is {confidence}, but must be in [0, 1]")
        sorted_in[bisect_left(bounds, confidence)].append((confidence, right))
    return Reliability(tuple(_bin(each) if each else None for each in sorted_in))


def _bin(answers: Sequence[Judged]) -> Bin:
    number = len(answers)
    confidence = sum(confidence for confidence, _ in answers) / number
    return Bin(number, confidence, sum(right for _, right in answers) / number)


def judged(
    gold: Sequence[Sentence], predicted: Sequence[Sentence]
) -> tuple[list[Judged], list[Judged]]:
    """Compare predictions with gold: spans but ``V``, and whole propositions.

    Returns:
        spans, right where gold has the same span of the same predicate; and propositions, right
        where all spans are, ``V`` included.

    Raises:
        UserError: if a prediction has no confidence.
    """
    spans: list[Judged] = []
    whole: list[Judged] = []
    for ours, theirs in zip(gold, predicted, strict=True):
        wanted = {p.predicate: set(p.spans) for p in ours.propositions}
        for proposition in theirs.propositions:
            right = wanted.get(proposition.predicate)
            whole.append((_known(proposition.confidence), right == set(proposition.spans)))
            spans += _judged_spans(right or (), proposition)
    return spans, whole


def _judged_spans(gold: Collection[Span], found: Proposition) -> list[Judged]:
    spans = [span for span in found.spans if span.label != VERB]
    return [(_known(span.confidence), span in gold) for span in spans]


def _known(confidence: float | None) -> float:
    if confidence is None:
        raise UserError("a prediction has no confidence; predict with confidence=True")
    return confidence


def fit_temperature(
    predictor: Predictor,
    gold: Sequence[Sentence],
    decoder: str = "structured",
    progress: Callable[[int], object] = lambda done: None,
) -> float:
    """The one of ``TEMPERATURES`` with which the confidences of spans have the least log loss.

    Args:
        predictor: its own temperature does not matter.
        gold: sentences that training has not seen.
        decoder: as for prediction.
        progress: called with the number of finished propositions.

    Raises:
        UserError: if no span is predicted.
    """
    asked = [(sentence.words, p) for sentence in gold for p in sentence.propositions]
    answers: list[list[Judged]] = [[] for _ in TEMPERATURES]
    done = 0
    for batch in batches([len(words) for words, _ in asked], predictor.batch_words):
        wanted = [asked[i][1] for i in batch]
        queries = [Query(asked[i][0], asked[i][1].predicate) for i in batch]
        log_probs, padding = predictor.log_probs(queries)
        labelled = decode_propositions(wanted, log_probs, padding, predictor.labels, decoder)
        for temperature, judgements in zip(TEMPERATURES, answers, strict=True):
            found = with_confidence(
                labelled, log_probs, padding, predictor.labels, decoder, temperature
            )
            for ours, theirs in zip(wanted, found, strict=True):
                judgements += _judged_spans(ours.spans, theirs)
        done += len(batch)
        progress(done)
    losses = [_log_loss(judgements) for judgements in answers]
    return TEMPERATURES[losses.index(min(losses))]


def _log_loss(answers: Sequence[Judged]) -> float:
    """Mean negative logarithm of the probability given to what is the case, in nats."""
    if not answers:
        raise UserError("the model labels no span, so that there is no confidence to calibrate")
    sure = 1e-6  # a confidence of 1 is rounded
    chances = (c if right else 1 - c for c, right in answers)
    return -sum(math.log(max(sure, chance)) for chance in chances) / len(answers)
