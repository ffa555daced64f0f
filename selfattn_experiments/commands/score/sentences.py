"""Score predicted classes, scores or answers: accuracy, or Pearson, Spearman and MSE.

Example:

  selfattn score sentences test.tsv predicted.tsv

Example, the classes of a gold file that has scores too, for a program to read:

  selfattn score sentences SICK_test_annotated.txt predicted.tsv --task nli --json

GOLD is any file that `selfattn prepare sentences` reads, or a part of the folder that it writes;
row i of PRED is the prediction for its example i. An example without a label (SNLI's `-`) does not
count. Accuracy is in percent. A correlation with predictions that are all the same is not defined:
`null` in JSON.
"""

import argparse
import json
import logging
import sys
from pathlib import Path

from selfattn_tasks.files import check_no_pipes
from selfattn_tasks.sentences.formats.source import Reading
from selfattn_tasks.sentences.gold import read_gold, read_outputs
from selfattn_tasks.sentences.metrics import figures, scale
from selfattn_tasks.sentences.record import Kind
from selfattn_tasks.sentences.task import Sentences

from ...compare.rendering.cells import score


def add_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("gold", type=Path, metavar="GOLD")
    add("predicted", type=Path, metavar="PRED")
    add("--json", action="store_true", help="print JSON instead of a table")
    add("--task", choices=[kind.value for kind in Kind], help="default: what GOLD holds")
    add(
        "--label-column", metavar="NAME", help="which column of GOLD is right, if not the usual one"
    )
    add("--sst", choices=("fine", "binary"), default="fine", help="classes of trees (fine)")
    add("--part", choices=("train", "valid", "test"), help="of SICK's file that holds all parts")


def main(args: argparse.Namespace) -> None:
    """Print the metrics of such a gold file."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    check_no_pipes(args.gold, args.predicted)
    reading = Reading(labelled=False, sst=args.sst, label_column=args.label_column, part=args.part)
    gold = read_gold(args.gold, args.task and Kind(args.task), reading)
    predicted = read_outputs(args.predicted, gold, args.gold)
    found = figures(gold, predicted)
    task = Sentences()
    for warning in [
        *task.gold_warnings(str(args.gold), args.gold, gold),
        *task.output_warnings(str(args.predicted), args.predicted, predicted, gold, False),
    ]:
        print(f"warning: {warning}", file=sys.stderr)
    if args.json:
        print(json.dumps({name.lower(): value for name, value in found.items()}, indent=2))
        return
    for name, value in found.items():
        shown = "not defined" if value is None else score(value, scale(name).digits)
        print(f"{name:<8}  {shown}")
