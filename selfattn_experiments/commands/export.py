"""Write a trained translation model for another library, or take one back.

Example, a folder for transformers with the search that the model was tested with:

  selfattn export --to hf runs/my/checkpoint_best.pt my-model --beam 5 \\
      --max-len-a 1.2 --max-len-b 10

Example, back to a checkpoint for fairseq-generate, its dictionaries beside it:

  selfattn export --to fairseq my-model runs/back/checkpoint.pt
"""

import argparse
from pathlib import Path

from selfattn_tasks.files import check_output, check_output_folder

from .flags import check_least


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of this command to its parser."""
    add = parser.add_argument
    add("--to", required=True, choices=("hf", "fairseq"), help="what to write")
    add("source", type=Path, metavar="SOURCE", help="a checkpoint; with --to fairseq a folder")
    add("target", type=Path, metavar="TARGET", help="a folder; with --to fairseq a checkpoint")
    add = parser.add_argument_group("with --to hf").add_argument
    add("--data", metavar="FOLDER", help="dictionaries (default: beside it, or as in training)")
    add("--beam", type=int, default=5, help="width of the search (5)")
    add("--lenpen", type=float, default=1.0, help="exponent of the length (1)")
    add("--max-len-a", type=float, default=0.0, metavar="A", help="as of fairseq-generate (0)")
    add("--max-len-b", type=int, default=200, metavar="B", help="as of fairseq-generate (200)")
    add("--record", type=Path, metavar="FILE", help="run.json (default: beside the checkpoint)")
    add("--license", metavar="NAME", help="for the model card, such as cc-by-sa-4.0")
    add("--trained-on", metavar="TEXT", help="for the model card: the data in words")


def main(args: argparse.Namespace) -> None:
    """Write the model."""
    check_least(args, beam=1, max_len_a=0, max_len_b=1)
    # transformers takes seconds to import, and a mistake in the flags should not.
    from selfattn_tasks.hf import card, translation
    from selfattn_tasks.saved import find_checkpoint

    if args.to == "fairseq":
        check_output("TARGET", args.target)
        translation.to_fairseq(args.source, args.target)
    else:
        check_output_folder("TARGET", args.target)
        path = find_checkpoint(args.source)
        search = translation.Search(args.beam, args.lenpen, args.max_len_a, args.max_len_b)
        model = translation.to_hf(path, args.target, args.data, search)
        record = args.record or card.find_record(path)
        card.write_card(args.target, model, record, args.license, args.trained_on)
    print(f"wrote {args.target}")
