"""Scores as the official CoNLL-2005 script prints them."""

from .propositions import VERB
from .scorer import NONE, Counts, Result

_RULE = "-" * 60
_LONG_RULE = "-" * 68
_HEADER = "              corr.  excess  missed    prec.    rec.      F1"


def format_scores(result: Result) -> str:
    """The official table of ``result``: totals, a line per label, and ``V`` outside the totals."""
    lines = [
        f"Number of Sentences    :      {result.sentences:6d}",
        f"Number of Propositions :      {result.propositions:6d}",
        f"Percentage of perfect props : {result.perfect_percent:6.2f}",
        "",
        _HEADER,
        _RULE,
        _row("Overall", result.overall),
        "-" * 10,
        *(_row(label, counts) for label, counts in result.labels.items() if label != VERB),
        _RULE,
        *(_row(label, counts) for label, counts in result.labels.items() if label == VERB),
        _RULE,
    ]
    return "\n".join(lines) + "\n"


def format_end_to_end(predicates: Counts, charged: Counts) -> str:
    """Rows below the table for predicates that a system found itself."""
    lines = [
        _HEADER,
        _row("Predicates", predicates),
        _row("All charged", charged),
        "All charged: arguments of predicates that are not in gold are excess",
    ]
    return "\n".join(lines) + "\n"


def format_confusion(result: Result) -> str:
    """What ``-C`` adds to the table of ``result``: unlabelled scores and the confusion matrix."""
    labels = sorted({NONE, *(label for pair in result.confusion for label in pair)})
    lines = [
        _LONG_RULE,
        f"{_HEADER}    lAcc",
        f"{_row('Unlabeled', result.unlabelled)}  {result.label_accuracy:6.2f}",
        _LONG_RULE,
        "",
        "---- Confusion Matrix: (one row for each correct role, with the distribution of "
        "predictions)",
        " " * 13 + "".join(f"{i:4d} " for i in range(-1, len(labels) - 1)),
    ]
    for i, gold in enumerate(labels, start=-1):
        cells = "".join(f"{result.confusion.get((gold, other), 0):4d} " for other in labels)
        lines.append(f"{i:2d}: {gold:<8} {cells}")
    return "\n".join(lines) + "\n"


def _row(name: str, counts: Counts) -> str:
    return (
        f"{name:>10}   {counts.correct:6d}  {counts.excess:6d}  {counts.missed:6d}   "
        f"{counts.precision:6.2f}  {counts.recall:6.2f}  {counts.f1:6.2f}"
    )
