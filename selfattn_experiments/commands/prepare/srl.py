"""Turn SRL files into the folder that `fairseq-train --task srl_tagging` loads.

Example, CoNLL-2005 columns (word, predicate lemma or -, one bracket column per predicate):

  selfattn prepare srl --train train.conll --valid dev.conll --dest data-bin/srl

Example, the official pairs of a words and a props file, with two test sets:

  selfattn prepare srl --train train.words train.props --valid dev.words dev.props \\
      --test wsj.words wsj.props --test brown.words brown.props --dest data-bin/srl

CoNLL-2012 files (a folder means all *gold_conll files below it) and lines of
`index words ||| tags` are read too; files may be gzipped. Then train with
`fairseq-train DEST --user-dir plugin --task srl_tagging --arch deepatt_mtsa ...`.
"""

import argparse
import logging
import sys
from pathlib import Path
from typing import Any

from selfattn.errors import UserError, shortened
from selfattn_tasks.srl.formats.conll import FORMATS
from selfattn_tasks.srl.prepare import META, Options, prepare

from ..flags import by_part, from_flags


def add_flags(parser: argparse.ArgumentParser) -> None:

    def add_split(flag: str, action: str = "extend", **kwargs: Any) -> None:
        parser.add_argument(flag, nargs="+", action=action, type=Path, metavar="FILE", **kwargs)

    add_split("--train", required=True, help="training data: one file, or a words and a props file")
    add_split("--valid", required=True, help="validation data, the same way")
    add_split("--test", action="append", help="test data; may be given several times")
    add = parser.add_argument
    add("--dest", type=Path, required=True, help="the folder to make")
    add("--overwrite", action="store_true", help="replace a folder that was prepared before")
    add("--format", choices=FORMATS, default="auto", help="of the files (auto: by their content)")
    add("--word-column", type=int, metavar="N",
        help="the column of the words, counted from 1 (the first, or the second where the first "
        "counts the words of each sentence)")  # fmt: skip
    add("--keep-case", action="store_true", help="do not lower-case the words of the dictionary")
    add("--vocab-size", type=int, default=0, help="keep only the N most frequent words (0: all)")
    add("--min-count", type=int, default=1, help="keep words that occur this often (1)")


def main(args: argparse.Namespace) -> None:
    """Prepare the folder and print what it holds."""
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stdout)
    files = by_part(train=args.train, valid=args.valid, test=args.test)
    for name, paths in files.items():
        if len(paths) > 2:
            raise UserError(
                f"--{name.rstrip('0123456789')} has {len(paths)} files, but takes one file, or a "
                "words and a props file"
            )
    options = from_flags(Options, args, lowercase=not args.keep_case, form=args.format)
    meta = prepare(files, args.dest, options, overwrite=args.overwrite)
    for name in files:
        unseen = meta["tags not in train"].get(name)
        note = (
            f"; tags that training never shows: {shortened(' '.join(unseen), 2000)}"
            if unseen
            else ""
        )
        print(
            f"{name:6} {meta['sentences'][name]:>7,} sentences, "
            f"{meta['propositions'][name]:>7,} propositions, "
            f"{meta['unknown words in percent'][name]:5.2f} % of the words unknown{note}"
        )
    print(f"dictionaries of {meta['words']:,} words and {meta['labels']} tags")
    print(f"wrote {args.dest} (all counts in {args.dest / META})")
