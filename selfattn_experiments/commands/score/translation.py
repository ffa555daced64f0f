"""Score translations with sacreBLEU.

Reads what fairseq-generate prints (and sorts it into corpus order) or plain text:

  selfattn score translation generated.txt --ref data-bin/multi30k/raw/test.de --lowercase

--metrics bleu chrf ter prints all three, each with its signature.
"""

import argparse
import sys
from pathlib import Path

from selfattn_tasks.files import check_no_pipes, write_lines
from selfattn_tasks.translation.metrics import NAMES, translation_metrics
from selfattn_tasks.translation.output_warnings import text_warnings
from selfattn_tasks.translation.outputs import read_hypotheses, read_translations

from ..flags import check_outputs


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("output", type=Path, help="output of fairseq-generate, or plain text")
    parser.add_argument("--ref", type=Path, required=True, help="references, one per line")
    parser.add_argument(
        "--metrics", nargs="+", action="extend", metavar="M",
        type=str.lower, choices=[name.lower() for name in NAMES], help="bleu (default), chrf, ter",
    )  # fmt: skip
    parser.add_argument("--lowercase", action="store_true", help="ignore case in BLEU and chrF")
    parser.add_argument("--tokenize", default="13a", help="BLEU's tokenizer (default: 13a)")
    parser.add_argument("--save", type=Path, help="write the translations in corpus order here")


def main(args: argparse.Namespace) -> None:
    """Print the scores with their signatures."""
    check_outputs(args, "save", inputs=(args.output, args.ref))
    check_no_pipes(args.output, args.ref)
    names = [name for name in NAMES if name.lower() in (args.metrics or ["bleu"])]
    metrics = translation_metrics(names, lowercase=args.lowercase, tokenize=args.tokenize)
    references = read_translations(args.ref)
    hypotheses = read_hypotheses(args.output, references, args.ref)
    for warning in text_warnings(str(args.output), hypotheses, references, args.lowercase):
        print(f"warning: {warning}", file=sys.stderr)
    if args.save is not None:
        write_lines(args.save, hypotheses)
    for metric in metrics:
        print(f"{metric.name} {metric.corpus(references, hypotheses):.2f}  {metric.signature}")
