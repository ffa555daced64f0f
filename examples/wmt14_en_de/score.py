#!/usr/bin/env python
"""Score a translation of newstest2014 in five kinds of BLEU and note it in RUN/scores.json.

Example (evaluate.sh does it):

  python examples/wmt14_en_de/score.py --run runs/wmt14/setup1-mtsa-1 --name last \\
      --checkpoint runs/wmt14/setup1-mtsa-1/checkpoint_last.pt --data data-bin/wmt14 \\
      --output runs/wmt14/setup1-mtsa-1/last.out
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from selfattn_tasks.cli import run, script_parser
from selfattn_tasks.files import check_output, write_lines
from selfattn_tasks.translation.outputs import read_hypotheses, read_translations
from wmt14 import runs
from wmt14.bleu import bleu_flavours
from wmt14.text import REFERENCE


def main() -> None:
    parser = script_parser(__doc__)
    add = parser.add_argument
    add("--run", type=Path, required=True, help="folder of the run")
    add("--name", required=True, help="what to call the checkpoint")
    add("--checkpoint", type=Path, required=True, help="the checkpoint that translated")
    add("--output", type=Path, required=True, help="what fairseq-generate printed")
    add("--data", type=Path, required=True, help="the folder that prepare.py made")
    args = parser.parse_args()
    check_output("--run", args.run / f"{args.name}.de")
    published = args.data / "text" / REFERENCE
    references = read_translations(published)
    hypotheses = read_hypotheses(args.output, references, published)
    scores = bleu_flavours(hypotheses, references)
    result = runs.describe(args.checkpoint, args.name, scores)
    write_lines(args.run / f"{args.name}.de", hypotheses)
    runs.save(args.run, result)
    print(f"{result.attention}, seed {result.seed}, {result.updates:,} updates, {args.name}")
    for flavour, score in scores.items():
        print(f"BLEU {score.bleu:5.2f}  {flavour:22}  {score.signature}")


if __name__ == "__main__":
    run(main)
