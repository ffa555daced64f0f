"""Turn sentences, pairs of them or candidates into the folder that `--task sentences` trains on.

Example, SNLI (its .jsonl or .txt files, or tables with premise, hypothesis and label):

  selfattn prepare sentences --task nli --train snli_1.0_train.jsonl \\
      --valid snli_1.0_dev.jsonl --test snli_1.0_test.jsonl --vectors glove.6B.300d.txt \\
      --dest data-bin/snli

Example, a corpus without parts of its own, for cross-validation:

  selfattn prepare sentences --task classification --train custrev.all --folds 10 --seed 1 \\
      --dest data-bin/cr

Formats are detected: SNLI, MultiNLI, SICK (both releases), TREC, CR, MPQA, MR, SUBJ, trees
of the Stanford Sentiment Treebank, questions with candidates as JSON lines, and plain tables and
JSON lines; files may be gzipped. Of trees, all phrases are trained on, whole sentences tested.
Without --valid, a share of the training data is drawn to choose checkpoints by. Then train with
`fairseq-train DEST --user-dir plugin --task sentences --arch sentence_encoder_mtsa ...`.
"""

import argparse
import logging
import sys
from pathlib import Path
from typing import Any

from selfattn.errors import shortened
from selfattn_tasks.sentences.folder import META
from selfattn_tasks.sentences.formats.source import Reading
from selfattn_tasks.sentences.formats.trees import MODES
from selfattn_tasks.sentences.prepare import Options, prepare
from selfattn_tasks.sentences.record import Kind
from selfattn_tasks.sentences.tokens import Tokens

from ..flags import by_part, from_flags


def add_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--task", choices=[str(kind) for kind in Kind], required=True, help="what is asked")
    add("--train", nargs="+", action="extend", type=Path, required=True, metavar="FILE",
        help="training data")  # fmt: skip
    add("--valid", nargs="+", action="extend", type=Path, metavar="FILE",
        help="data to choose checkpoints by")  # fmt: skip
    add("--test", type=Path, action="append", metavar="FILE",
        help="test data; may be given several times")  # fmt: skip
    add("--dest", type=Path, required=True, help="the folder to make")
    add("--overwrite", action="store_true", help="replace a folder that was prepared before")
    add("--folds", type=int, default=0, metavar="K",
        help="cross-validation on --train: while fold i is tested, i + 1 chooses")  # fmt: skip
    add("--seed", type=int, default=1, help="of the folds, or of the validation share (1)")
    add("--valid-share", type=float, metavar="SHARE",
        help="without --valid: this share of each class of --train (0.1)")  # fmt: skip
    add("--select-on-test", action="store_true",
        help="the papers' rule: test data choose checkpoints, which flatters scores")  # fmt: skip
    add("--vectors", nargs="+", action="extend", type=Path, default=[], metavar="GLOVE",
        help="word vectors; a word has that of the first file that knows it")  # fmt: skip
    add("--keep-case", action="store_true", help="do not lower-case (GloVe 6B is lower-cased)")
    add("--split-words", action="store_true",
        help="split words at - / ~ \" ' and dashes, as the papers' code does for all but SICK, "
        "TREC and SST")  # fmt: skip
    add("--length-percentile", type=float, default=100.0, metavar="PERCENT",
        help="leave out longer training examples (100: none; the papers for SNLI: 97)")  # fmt: skip
    add("--label-column", metavar="NAME",
        help="where the labels stand, if not under a usual name; TREC: coarse or fine")  # fmt: skip
    add("--sst", choices=MODES, help="classes of trees: five, or two without the neutral (fine)")
    add("--sst-repeat", action="store_true",
        help="trees: whole sentences and phrases that are not neutral four times, as the papers' "
        "code does for five classes")  # fmt: skip


def main(args: argparse.Namespace) -> None:
    """Prepare the folder and print what it holds."""
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stdout)
    tests = [[path] for path in args.test or []]
    files = by_part(train=args.train, valid=args.valid, test=tests)
    options = from_flags(
        Options,
        args,
        kind=Kind(args.task),
        reading=Reading(
            tokens=Tokens(lowercase=not args.keep_case, split_words=args.split_words),
            sst=args.sst,
            repeat=args.sst_repeat,
            label_column=args.label_column,
        ),
        vectors=tuple(args.vectors),
    )
    meta = prepare(files, args.dest, options, overwrite=args.overwrite)
    report(meta)
    print(f"wrote {args.dest} (all counts in {args.dest / META})")


def report(meta: dict[str, Any]) -> None:
    """Print the counts of each part, and what a reader of its scores should know."""
    for name, count in meta["examples"].items():
        lengths = meta["lengths"][name]
        unknown = meta["unknown words in percent"].get(name)
        notes = [
            f"sentences of {lengths['mean']:.1f} words, the longest has {lengths['longest']:,}"
        ]
        notes += [f"{unknown:.2f} % of the words unknown"] if unknown is not None else []
        notes += [f"{lengths['empty']:,} empty sentences"] if lengths["empty"] else []
        print(f"{name:6} {count:>9,} examples; {'; '.join(notes)}")
    if meta["words"]:
        print(f"dictionary of {meta['words']:,} words")
    if vectors := meta.get("vectors"):
        lacking = ", ".join(f"{n} {p:.2f} %" for n, p in vectors["without in percent"].items())
        print(
            f"vectors of {vectors['width']} numbers for {vectors['words']:,} words; words of the "
            f"text without one: {lacking}"
        )
    for line in warnings(meta):
        print(f"warning: {line}")


def warnings(meta: dict[str, Any]) -> list[str]:
    """What is odd about the data, or makes scores better than they are."""
    found = [
        f"examples of {name.replace(' in ', ' that are also in ')}: {n:,}"
        for name, n in meta["overlaps"].items()
        if n
    ]
    found += [
        f"examples of {name} that repeat others of it: {n:,}"
        for name, n in meta["repeated"].items()
        if n
    ]
    for name, unseen in meta["labels not in train"].items():
        if unseen:
            labels = shortened(", ".join(unseen), 500)
            found.append(f"{name} has labels that training never shows: {labels}")
    for label, lacking in meta.get("classes missing in folds", {}).items():
        folds = ", ".join(map(str, lacking))
        found.append(f"no example of the class {shortened(label, 50)} in the folds {folds}")
    if meta["selection"] == "test":
        found.append(
            "checkpoints will be chosen on the test data (--select-on-test): scores are too high "
            "and go beside no other ones"
        )
    return found
