"""BLEU, chrF and TER from summed counts.

sacreBLEU counts each sentence; the formulas below work on whole arrays of sums and agree with
sacreBLEU's to the last digit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from selfattn.errors import UserError, needed

from ..metric import Counts, Metric, SentenceCounts, compact, percent

_ORDERS = 4  # BLEU: n-grams of 1 to 4 words
_BETA2 = 4.0  # chrF2 weights recall twice: beta = 2
# What sacreBLEU calls log(0).
_LOG_ZERO = -9999999999.0


def bleu_scores(sums: Counts) -> Counts:
    """BLEU with exponential smoothing (Papineni et al. 2002; Chen and Cherry 2014, method 3).

    Args:
        sums: shape (..., 10): words of the hypotheses, words of the references, matching n-grams
            of 1 to 4 words, all n-grams of 1 to 4 words.
    """
    words, reference = sums[..., 0], sums[..., 1]
    correct, total = sums[..., 2 : 2 + _ORDERS], sums[..., 2 + _ORDERS :]
    # The k-th order without a match counts as 1 / 2^k of a match.
    zero = (correct == 0) & (total > 0)
    matches = np.where(zero, 0.5 ** np.cumsum(zero, axis=-1), correct)
    precision = percent(matches, total)
    with np.errstate(divide="ignore", invalid="ignore"):
        log = np.where(precision > 0, np.log(precision), _LOG_ZERO)
        short = np.where(words > 0, np.exp(np.minimum(0.0, 1.0 - reference / words)), 0.0)
    brevity = np.where(words < reference, short, 1.0)
    return np.where(correct.any(axis=-1), brevity * np.exp(log.sum(axis=-1) / _ORDERS), 0.0)


def chrf_scores(sums: Counts) -> Counts:
    """chrF2 (Popović 2015): the F score of mean precision and mean recall over the orders.

    Args:
        sums: shape (..., 18): for n-grams of 1 to 6 characters, how many are in the hypotheses,
            in the references, and in both.
    """
    hypothesis, reference, match = (sums[..., first::3] for first in range(3))
    used = (hypothesis > 0) & (reference > 0)
    orders = np.maximum(used.sum(axis=-1), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(used, match / hypothesis, 0.0).sum(axis=-1) / orders
        recall = np.where(used, match / reference, 0.0).sum(axis=-1) / orders
        f = (1 + _BETA2) * precision * recall / (_BETA2 * precision + recall)
    return np.where(precision + recall > 0, 100.0 * f, 0.0)


def ter_scores(sums: Counts) -> Counts:
    """TER (Snover et al. 2006): edits per word of the reference.

    Args:
        sums: shape (..., 2): edits, words of the references.
    """
    edits, words = sums[..., 0], sums[..., 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where(words > 0, edits / words, np.where(edits > 0, 1.0, 0.0))
    return 100.0 * rate


_FORMULAS = {"BLEU": bleu_scores, "chrF": chrf_scores, "TER": ter_scores}
NAMES = tuple(_FORMULAS)


@dataclass(frozen=True)
class Score:
    """BLEU, with the signature that makes it comparable."""

    bleu: float
    signature: str


class TranslationMetric(Metric):
    """A metric of sacreBLEU with one reference per sentence.

    Args:
        name: one of NAMES; each has its own counts.
        engine: sacreBLEU's object.
    """

    def __init__(self, name: str, engine: Any) -> None:
        super().__init__(name)
        self.engine, self.source = engine, name
        self.higher_is_better = name != "TER"
        engine.num_refs = 1  # for the signature, before anything is counted
        self.signature = str(engine.get_signature())

    def corpus(self, gold: Sequence[str], output: Sequence[str]) -> float:
        """The score of one output, as sacreBLEU computes it."""
        return float(self.engine.corpus_score(list(output), [list(gold)]).score)

    def counts(self, gold: Sequence[str], outputs: Sequence[Sequence[str]]) -> list[SentenceCounts]:
        """Count each sentence of several outputs: arrays of shape (sentences, columns)."""
        # What sacreBLEU's own significance tests call; corpus_score does not return sentences.
        self.engine._ref_cache = self.engine._cache_references([list(gold)])
        return [compact(self.engine._extract_corpus_statistics(out, None)) for out in outputs]

    def scores(self, sums: Counts) -> Counts:
        """Turn summed counts, shape (..., columns), into scores, shape (...)."""
        return _FORMULAS[self.name](sums)


def translation_metrics(
    names: Sequence[str], *, lowercase: bool, tokenize: str = "13a"
) -> list[TranslationMetric]:
    """Make metrics of sacreBLEU.

    Args:
        names: some of NAMES.
        lowercase: ignore case. TER always does, as is sacreBLEU's default.
        tokenize: BLEU's tokenizer, ``13a`` by default.

    Raises:
        UserError: if sacrebleu is not installed or has no such tokenizer.
    """
    offered = needed("sacrebleu.metrics")
    BLEU = offered.BLEU
    if tokenize not in BLEU.TOKENIZERS:
        raise UserError(
            f"--tokenize is {tokenize!r}, but must be one of {', '.join(sorted(BLEU.TOKENIZERS))}"
        )
    makers = {
        # force: sacreBLEU would print advice that this package gives as warnings of its own.
        "BLEU": lambda: BLEU(lowercase=lowercase, tokenize=tokenize, force=True),
        "chrF": lambda: offered.CHRF(lowercase=lowercase),
        "TER": offered.TER,
    }
    try:
        return [TranslationMetric(name, makers[name]()) for name in names]
    except (ImportError, RuntimeError, OSError) as error:
        # A tokenizer of its own package, or one whose model sacreBLEU downloads.
        reason = str(error).strip().partition("\n")[0]
        raise UserError(
            f"--tokenize is {tokenize!r}, which sacreBLEU cannot set up here: {reason}"
        ) from None
