"""Turn parallel text files into a fairseq data-bin with one SentencePiece vocabulary.

Example, with files corpus/train.en, corpus/train.de, corpus/valid.en and so on:

  selfattn prepare translation --source-lang en --target-lang de \\
      --train corpus/train --valid corpus/valid --test corpus/test \\
      --lowercase --vocab-size 8000 --dest data-bin/corpus

Example, one pair of files, split here so that no sentence occurs in two parts:

  selfattn prepare translation --source-lang en --target-lang de \\
      --pair text.en text.de --held-out 500 --vocab-size 4000 --dest data-bin/text

Then train with `fairseq-train DEST/data-bin ...` and score against DEST/raw/test.de.
"""

import argparse
import logging
import sys
from pathlib import Path
from typing import Any

from selfattn.errors import UserError
from selfattn_tasks.text import Cleaning
from selfattn_tasks.translation.prepare import SUMMARY, Options, find_pair, prepare
from selfattn_tasks.translation.vocabulary import MODEL_TYPES

from ..flags import by_part, from_flags


def add_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("text").add_argument
    add("--source-lang", required=True, metavar="LANG", help="ending of the source files")
    add("--target-lang", required=True, metavar="LANG", help="ending of the target files")
    add("--train", metavar="PREFIX", help="training text: PREFIX.SOURCE and PREFIX.TARGET (or .gz)")
    add("--valid", metavar="PREFIX", help="validation text")
    add("--test", metavar="PREFIX", action="append", help="test text; may be given several times")
    add("--pair", nargs=2, type=Path, metavar=("SOURCE", "TARGET"), help="two files to split")
    add("--held-out", type=int, default=500, help="with --pair: pairs for valid, and test (500)")
    add("--seed", type=int, default=1, help="with --pair: chooses the split (1)")
    add = parser.add_argument_group("output").add_argument
    add("--dest", type=Path, required=True, help="the folder to make")
    add("--overwrite", action="store_true", help="replace a folder that was prepared before")
    add("--vocab-size", type=int, default=8000, help="SentencePiece pieces (8000)")
    add("--vocab-type", choices=MODEL_TYPES, default="bpe", help="(bpe)")
    add = parser.add_argument_group("cleaning and encoding").add_argument
    add("--lowercase", action="store_true", help="lower-case all text")
    add("--max-length", type=int, default=250, help="maximum words, and pieces, per sentence (250)")
    add("--max-ratio", type=float, default=5.0, help="maximum length ratio of a training pair (5)")
    add("--strict", action="store_true", help="refuse bad training pairs instead of dropping them")
    add("--workers", type=int, default=1, help="processes for binarising (1)")


def main(args: argparse.Namespace) -> None:
    """Prepare the folder and print what it holds."""
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stdout)
    options = from_flags(Options, args, cleaning=from_flags(Cleaning, args))
    files = {"pair": args.pair}
    if args.pair is None:
        missing = [f"--{name}" for name in ("train", "valid") if not getattr(args, name)]
        if missing:
            raise UserError(
                f"{' and '.join(missing)} missing: give both parts, or --pair SOURCE TARGET"
            )
        prefixes = by_part(train=args.train, valid=args.valid, test=args.test)
        files = {
            name: find_pair(prefix, options, f"--{name.rstrip('0123456789')}")
            for name, prefix in prefixes.items()
        }
    elif args.train or args.valid or args.test:
        raise UserError("--pair cannot be combined with --train, --valid or --test")
    summary = prepare(
        files, args.dest, options, held_out=args.held_out, seed=args.seed, overwrite=args.overwrite
    )
    report(summary)
    print(f"wrote {args.dest}/data-bin (all counts in {args.dest}/{SUMMARY})")


def report(summary: dict[str, Any]) -> None:
    """Print the counts of each part."""
    for name, count in summary["pairs"].items():
        pieces = ", ".join(f"{n:,} {lang} pieces" for lang, n in summary["pieces"][name].items())
        overlap = summary["sentences also in train"].get(name, 0)
        note = f"; {overlap} with a side that is also in train" if overlap else ""
        print(f"{name:6} {count:>9,} pairs, {pieces}{note}")
    print(f"dictionary of {summary['dictionary']:,} pieces for both languages")
