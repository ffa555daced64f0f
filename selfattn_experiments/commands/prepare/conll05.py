"""Build the CoNLL-2005 data from its two public archives and your own Penn Treebank (LDC99T42).

Example:

  selfattn prepare conll05 --treebank TREEBANK_3 \\
      --archive conll05st-release.tar.gz conll05st-tests.tar.gz --dest data/conll05

DEST gets train.conll (sections 02-21), dev.conll (24), test.wsj.conll (23) and test.brown.conll,
each with its .props file for the official scorer, and counts.json. The counts of sentences, tokens
and propositions are compared with the published ones. Then run `selfattn prepare srl`.
"""

import argparse
from functools import partial
from pathlib import Path

from selfattn_tasks.srl.formats.conll05 import build


def add_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--treebank", type=Path, help="a folder above the sections, as in parsed/mrg/wsj/02")
    add(
        "--archive", type=Path, nargs="+", action="extend", required=True, metavar="ARCHIVE",
        help="conll05st-release.tar.gz and conll05st-tests.tar.gz, or the folder they unpack to",
    )  # fmt: skip
    add("--dest", type=Path, required=True, help="the folder to make")
    add("--overwrite", action="store_true", help="replace a folder that was made before")
    add("--any-counts", action="store_true", help="accept other counts than the published ones")


def main(args: argparse.Namespace) -> None:
    """Build the folder and print what it holds."""
    counts = build(
        args.treebank,
        args.archive,
        args.dest,
        any_counts=args.any_counts,
        overwrite=args.overwrite,
        show=partial(print, flush=True),
    )
    for name, sections in counts.items():
        sentences, tokens, propositions = sections["total"]
        print(
            f"{name:10} total: {sentences:>6,} sentences, {tokens:>7,} tokens, "
            f"{propositions:>6,} propositions"
        )
    print(f"wrote {args.dest}" + ("" if args.any_counts else "; all counts are the published ones"))
