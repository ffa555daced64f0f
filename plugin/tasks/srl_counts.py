"""Counts of a validation, summed over all processes, and the scores that they make."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from fairseq.logging import metrics
from torch import Tensor

from selfattn_tasks.srl import Sentence
from selfattn_tasks.srl.decode import decode_propositions
from selfattn_tasks.srl.metrics import counts_of
from selfattn_tasks.srl.propositions import unlabelled
from selfattn_tasks.srl.scorer import Counts, count_predicates, score
from selfattn_tasks.srl.tagger.predicates import PREDICATE, places
from selfattn_tasks.srl.tagger.state import TaggerState

# Where the log keeps the columns of metrics.counts_of; fairseq hides names that begin with _.
_ARGUMENTS = ("_srl_correct", "_srl_excess", "_srl_missed", "_srl_perfect", "_srl_propositions")
_PREDICATES = ("_predicates_correct", "_predicates_excess", "_predicates_missed")


def count(
    scores: Tensor, sample: dict[str, Any], state: TaggerState, decoder: str
) -> dict[str, int]:
    """Compare a batch with its gold propositions and sentences.

    Returns:
        the same names for every batch, as sums over processes need.
    """
    log_probs = torch.log_softmax(scores.float(), -1)
    padding = sample["net_input"]["padding_mask"]
    marked = sample["net_input"]["indicator"].any(1)
    counts: dict[str, int] = {}
    if state.target != "predicates":
        gold = _chosen(sample["gold"], marked)
        found = _arguments(log_probs[marked], padding[marked], gold, state, decoder)
        counts |= dict(zip(_ARGUMENTS, found, strict=True))
    if state.target != "arguments":
        gold = _chosen(sample["gold"], ~marked)
        at = state.vocabulary.labels.index(PREDICATE)
        rows = places(log_probs[~marked][..., at].exp(), padding[~marked])
        pairs = zip(gold, rows, strict=True)
        answers = [replace(s, propositions=unlabelled(s.words, row)) for s, row in pairs]
        sums = count_predicates(gold, answers)
        counts |= dict(zip(_PREDICATES, (sums.correct, sums.excess, sums.missed), strict=True))
    return counts


def _chosen(gold: Sequence[Sentence], rows: Tensor) -> list[Sentence]:
    return [sentence for sentence, yes in zip(gold, rows.tolist(), strict=True) if yes]


def _arguments(
    log_probs: Tensor, padding: Tensor, gold: list[Sentence], state: TaggerState, decoder: str
) -> Sequence[int]:
    """The official score's counts; each sentence has the one proposition of its row."""
    if not gold:
        return [0] * len(_ARGUMENTS)
    asked = [proposition for sentence in gold for proposition in sentence.propositions]
    found = decode_propositions(asked, log_probs, padding, state.vocabulary.labels, decoder)
    pairs = zip(gold, found, strict=True)
    predicted = [replace(sentence, propositions=(row,)) for sentence, row in pairs]
    return counts_of(score(gold, predicted))


_FIGURES = ("precision", "recall", "f1")


def log(logging_outputs: Sequence[dict[str, Any]]) -> None:
    """Log the scores of a validation whose counts are in ``logging_outputs``, if they are."""
    for names, prefix, figures in (
        (_ARGUMENTS, "", (*_FIGURES, "perfect_props")),
        (_PREDICATES, "predicate_", _FIGURES),
    ):
        if not any(names[0] in output for output in logging_outputs):
            continue
        for name in names:
            total = sum(output.get(name, 0) for output in logging_outputs)
            metrics.log_scalar(name, float(total))
        for figure in figures:
            metrics.log_derived(prefix + figure, partial(_figure, figure, names))


def _figure(figure: str, names: Sequence[str], meters: Any) -> float:
    """In percent, by the sums of the counts over a validation."""
    correct, excess, missed, *whole = (meters[name].sum for name in names)
    if figure != "perfect_props":
        return round(float(getattr(Counts(correct, excess, missed), figure)), 2)
    perfect, propositions = whole
    return round(100 * perfect / propositions, 2) if propositions else 0.0
