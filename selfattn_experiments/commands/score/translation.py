"""Score translations with sacreBLEU.

Reads what fairseq-generate prints (and sorts it into corpus order) or plain text:

  selfattn score translation generated.txt --ref data-bin/multi30k/raw/test.de --lowercase
"""

import argparse
import sys
from pathlib import Path

from selfattn_tasks.files import write_lines
from selfattn_tasks.translation.output_warnings import text_warnings
from selfattn_tasks.translation.outputs import bleu, read_hypotheses, read_translations

from ..flags import check_outputs


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of this command to its parser."""
    parser.add_argument("output", type=Path, help="output of fairseq-generate, or plain text")
    parser.add_argument("--ref", type=Path, required=True, help="references, one a line")
    parser.add_argument("--lowercase", action="store_true", help="ignore case")
    parser.add_argument("--save", type=Path, help="write the translations in corpus order here")


def main(args: argparse.Namespace) -> None:
    """Print the score with its signature."""
    check_outputs(args, "save", inputs=(args.output, args.ref))
    references = read_translations(args.ref, subwords=True)
    hypotheses = read_hypotheses(args.output, references, args.ref)
    for warning in text_warnings(str(args.output), hypotheses, references, args.lowercase):
        print(f"warning: {warning}", file=sys.stderr)
    if args.save is not None:
        write_lines(args.save, hypotheses)
    score = bleu(hypotheses, references, args.lowercase)
    print(f"BLEU {score.bleu:.2f}  {score.signature}")
