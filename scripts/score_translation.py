#!/usr/bin/env python
"""Score translations with sacreBLEU.

Reads what fairseq-generate prints (and sorts it into corpus order) or plain text:

  python scripts/score_translation.py generated.txt --ref data-bin/multi30k/raw/test.de --lowercase
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from selfattn.cli import run
from selfattn.files import check_output, write_lines
from selfattn_tasks.translation.output_warnings import text_warnings
from selfattn_tasks.translation.outputs import bleu, read_hypotheses, read_translations


def main() -> None:
    """Print the score with its signature."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", type=Path, help="output of fairseq-generate, or plain text")
    parser.add_argument("--ref", type=Path, required=True, help="references, one a line")
    parser.add_argument("--lowercase", action="store_true", help="ignore case")
    parser.add_argument("--save", type=Path, help="write the translations in corpus order here")
    args = parser.parse_args()
    if args.save is not None:
        check_output("--save", args.save)
    references = read_translations(args.ref, subwords=True)
    hypotheses = read_hypotheses(args.output, references, args.ref)
    for warning in text_warnings(str(args.output), hypotheses, references, args.lowercase):
        print(f"warning: {warning}", file=sys.stderr)
    if args.save is not None:
        write_lines(args.save, hypotheses)
    score = bleu(hypotheses, references, args.lowercase)
    print(f"BLEU {score.bleu:.2f}  {score.signature}")


if __name__ == "__main__":
    run(main)
