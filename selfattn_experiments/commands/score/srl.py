"""Score predicted semantic roles with the figures of the official CoNLL-2005 script.

Example:

  selfattn score srl dev.conll predicted.props

Example, for a program to read:

  selfattn score srl dev.conll predicted.props --json

Both files may be CoNLL-2005 columns with or without words, CoNLL-2012, or lines of
`index words ||| tags`, plain or gzipped. Lines hold no sentence without a predicate: they are
compared with the other file's sentences. The official script counts V outside the totals; so does
this one. Of predicates that differ, the official script ignores those that are not in GOLD, and the
arguments of those that are not in PRED, or have another lemma there, are missed. With --end-to-end
lemmas do not matter, which a system that finds predicates does not know, and the predicates are
scored, too.
"""

import argparse
import json
import logging
import sys
from pathlib import Path

from selfattn.errors import UserError
from selfattn_tasks.files import check_no_pipes
from selfattn_tasks.srl.formats import conll
from selfattn_tasks.srl.formats.lines import regrouped
from selfattn_tasks.srl.metrics import SEQEVAL, tag_f1
from selfattn_tasks.srl.scorer import charged, check_same_sentences, count_predicates, score
from selfattn_tasks.srl.table import format_confusion, format_end_to_end, format_scores


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("gold", type=Path, metavar="GOLD")
    parser.add_argument("predicted", type=Path, metavar="PRED")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument(
        "--confusion", action="store_true", help="add unlabelled scores and the confusion matrix"
    )
    parser.add_argument(
        "--end-to-end", action="store_true",
        help="PRED has predicates that a system found: compare them by position alone, score them, "
        "and add F1 with their arguments as excess where they are not in GOLD",
    )  # fmt: skip


def main(args: argparse.Namespace) -> None:
    """Print the official scores and seqeval's F1."""
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stderr)
    check_no_pipes(args.gold, args.predicted)
    # What the official script accepts must be scored, even where training would refuse it.
    gold = conll.read(args.gold, lenient=True)
    predicted = conll.read(args.predicted, lenient=True)
    free = args.end_to_end
    gold, predicted = (
        regrouped(gold, predicted, end_to_end=free), regrouped(predicted, gold, end_to_end=free)
    )  # fmt: skip
    check_same_sentences(gold, predicted, (args.gold, args.predicted))
    result = score(gold, predicted, lemmas=not free)
    if result.spurious:
        print(f"{result.spurious} predicates are not in GOLD and are ignored", file=sys.stderr)
    if result.absent:
        lemmas = "" if free else ", or have another lemma, which --end-to-end ignores"
        print(
            f"{result.absent} predicates of GOLD are not in PRED{lemmas}: their arguments are "
            "missed",
            file=sys.stderr,
        )
    try:
        second, why = tag_f1(gold, predicted), ""
    except UserError as error:
        second, why = None, str(error)
    if args.json:
        figures = {**result.as_dict(), "seqeval": second, "seqeval_is": SEQEVAL}
        if free:
            figures["predicates"] = count_predicates(gold, predicted).as_dict()
            figures["all_charged"] = charged(gold, predicted).as_dict()
        if args.confusion:
            figures["confusion"] = result.confusion_as_dict()
        print(json.dumps(figures, indent=2))
        return
    print(format_scores(result), end="")
    if free:
        found = count_predicates(gold, predicted), charged(gold, predicted)
        print(format_end_to_end(*found), end="")
    if args.confusion:
        print(format_confusion(result), end="")
    print(f"\n{SEQEVAL}: " + (f"{second['f1']:.2f}" if second else f"not available ({why})"))
