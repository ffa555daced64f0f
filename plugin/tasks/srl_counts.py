"""Counts of a validation, summed over all processes, and the scores that they make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from fairseq.logging import metrics
from torch import Tensor

from selfattn_tasks.metric import Counts, percent
from selfattn_tasks.srl import Sentence
from selfattn_tasks.srl.decode import decode
from selfattn_tasks.srl.metrics import counts_of, f1_scores, perfect_scores
from selfattn_tasks.srl.propositions import unlabelled
from selfattn_tasks.srl.scorer import count_predicates, score
from selfattn_tasks.srl.tagger.predicates import PREDICATE, places
from selfattn_tasks.srl.tagger.state import TaggerState
from selfattn_tasks.srl.tags import proposition_of

# Where the log keeps the columns of metrics.f1_scores; fairseq hides names that begin with _.
_ARGUMENTS = ("_srl_correct", "_srl_excess", "_srl_missed", "_srl_perfect", "_srl_propositions")
_PREDICATES = ("_predicates_correct", "_predicates_excess", "_predicates_missed")


def count(
    scores: Tensor, sample: dict[str, Any], state: TaggerState, decoder: str
) -> dict[str, int]:
    """Compare a batch with its gold propositions and sentences.

    Args:
        scores: ``(B, T, labels)``.
        sample: the batch.
        state: labels, and what the tagger is trained for.
        decoder: for arguments.

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
    predicted = []
    tags = decode(log_probs, padding, state.vocabulary.labels, decoder)
    for row, sentence in zip(tags, gold, strict=True):
        (proposition,) = sentence.propositions
        found = proposition_of(row, proposition.predicate, proposition.lemma, decoder=decoder)
        predicted.append(replace(sentence, propositions=(found,)))
    return counts_of(score(gold, predicted))


# By the sums of the counts over a validation.
_PREDICATE_FIGURES: dict[str, Callable[[Counts], Counts]] = {
    "precision": lambda sums: percent(sums[0], sums[0] + sums[1]),
    "recall": lambda sums: percent(sums[0], sums[0] + sums[2]),
    "f1": f1_scores,
}
_FIGURES = {**_PREDICATE_FIGURES, "perfect_props": perfect_scores}


def log(logging_outputs: Sequence[dict[str, Any]]) -> None:
    """Log the scores of a validation whose counts are in ``logging_outputs``, if they are."""
    for names, prefix, figures in (
        (_ARGUMENTS, "", _FIGURES),
        (_PREDICATES, "predicate_", _PREDICATE_FIGURES),
    ):
        if not any(names[0] in output for output in logging_outputs):
            continue
        for name in names:
            total = sum(output.get(name, 0) for output in logging_outputs)
            metrics.log_scalar(name, float(total))
        for name, figure in figures.items():
            metrics.log_derived(prefix + name, partial(_figure, figure, names))


def _figure(figure: Callable[[Counts], Counts], names: Sequence[str], meters: Any) -> float:
    return round(float(figure(np.array([meters[name].sum for name in names]))), 2)
