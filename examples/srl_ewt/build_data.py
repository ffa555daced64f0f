"""Join PropBank's annotation of the English Web Treebank with its words: CoNLL-2005 columns.

Example, after cloning the two repositories at the commits that the README beside this file names:

  python examples/srl_ewt/build_data.py --propbank propbank-release --words UD_English-EWT \\
      --dest data/srl_ewt

Kept: the predicates tagged as verbs (--predicates nouns: as nouns; all: any), without auxiliaries
that have no argument, in sentences where both repositories have the same tokens. Labels are
CoNLL-2005's: ARG0 is A0, ARGM-TMP is AM-TMP. The files are ewt-PREDICATES.SPLIT.conll.
What is left out is counted, including listed documents without annotation, and so is how well gold
tags and dependencies alone tell the predicates that are verbs: a bound for what finds predicates.
ewt.train.conllu holds the trees of the training documents, for --scaffold.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path, PurePosixPath
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from selfattn.errors import UserError
from selfattn_tasks.cli import run, script_parser
from selfattn_tasks.files import write_json, write_text
from selfattn_tasks.folder import new_folder, sha256_of
from selfattn_tasks.srl import Proposition, Sentence, Span
from selfattn_tasks.srl.formats import conll
from selfattn_tasks.srl.formats.brackets import BracketError, parse_brackets
from selfattn_tasks.srl.formats.conllu import Tree, read_trees
from selfattn_tasks.srl.formats.rows import NO_PREDICATE, Block, read_blocks
from selfattn_tasks.srl.propositions import CONTINUATION, VERB
from selfattn_tasks.srl.scorer import Counts
from selfattn_tasks.text import read_lines

MARK = "counts.json"
SPLITS = ("train", "dev", "test")
# How the Penn tags begin of the predicates that --predicates keeps.
KINDS = {"verbs": "VB", "nouns": "NN", "all": ""}
# Rolesets of auxiliaries; without an argument they are not predicates of their own.
AUXILIARIES = {"be.03", "have.01", "have.02", "do.01", "go.04", "use.03", "get.03"}
# The files that the numbers in the README were made with.
KNOWN = {
    "verbs": {
        "train": "e5062a7e5dd0742385072cae3c32a49868e4fa44835a0e00d0c3b0abf0029ecb",
        "dev": "8d2b82478fe5bf38946c833b3c22974a694e01838d356573a96ff22cf6e42070",
    },
    "nouns": {
        "train": "c933449aee34c7ae6bb03d4bdbc5dc85263a858ab28a77aa67b5095244417f40",
        "dev": "0f2e126201b9617219c4ee098cfd3277b0d5fc368d184e10555b7275e899e1ef",
    },
    "all": {
        "train": "d45b3c5685ec62a696307dc1013d1a09cb2f22c09d0614989a1a68935ded86d1",
        "dev": "61038156ca8ec4850c4fbed4d65be24457864de90fe5010e60e194a66ef4f39b",
    },
}
# A gold_skel file: document, sentence, token, word, part of speech, parse, lemma, roleset, ...
_SENTENCE, _POS, _ROLESET, _FIRST = 1, 4, 7, 8


def trees_of(path: Path) -> dict[int, Tree]:
    """The sentences of a CoNLL-U file by their number in the document, from 0."""
    found = {}
    for tree in read_trees(path):
        number = tree.name.rpartition("-")[2]
        if not number.isdigit():
            raise UserError(f"{path}: the sent_id must end in -NUMBER: {tree.name!r}")
        found[int(number) - 1] = tree
    return found


def main_verbs_of(tree: Tree) -> set[int]:
    """The verbs that are no auxiliaries."""
    words = enumerate(zip(tree.tags, tree.relations, strict=True))
    return {i for i, (tag, name) in words if tag.startswith("VB") and not name.startswith("aux")}


def why_apart(block: Block, tree: Tree | None) -> str:
    """Why annotation and words are not of one sentence; empty if they are."""
    if tree is None:
        return "sentences without words"
    if len(tree.words) != len(block.rows):
        return "sentences with other tokens"
    other = sum(row[_POS] != tag for row, tag in zip(block.rows, tree.tags, strict=True))
    # Some tags were corrected in one repository alone; this many mean another text of one length.
    return "sentences with other tags" if other > max(2, 0.3 * len(block.rows)) else ""


def label_of(label: str) -> str:
    """CoNLL-2005's name of a PropBank label: ARGM-X is AM-X, ARG0 is A0; R- and C- stay."""
    return label.replace("ARGM", "AM").replace("ARG", "A")


def propositions_of(block: Block, kind: str, counts: Counter[str]) -> tuple[Proposition, ...]:
    """The propositions of a kind in a sentence, each at the first word of its V."""
    rows = [i for i, row in enumerate(block.rows) if row[_ROLESET] != NO_PREDICATE]
    if block.width != _FIRST + len(rows):
        raise block.error(
            0, f"{block.width} columns, but {len(rows)} predicates need {_FIRST + len(rows)}"
        )
    found = []
    taken = set(rows)
    for column, i in enumerate(rows, start=_FIRST):
        roleset = block.rows[i][_ROLESET]
        if not block.rows[i][_POS].startswith(KINDS[kind]):
            counts[f"predicates that are no {kind}"] += 1
            continue
        try:
            spans = parse_brackets([row[column] for row in block.rows])
        except BracketError:
            counts["predicates with nested or unbalanced spans"] += 1
            continue
        opens = [span.start for span in spans if span.label == VERB]
        has_argument = any(s.label.removeprefix(CONTINUATION) != VERB for s in spans)
        if roleset in AUXILIARIES and not has_argument:
            counts["auxiliaries"] += 1
        elif len(opens) != 1:
            counts["predicates without exactly one V"] += 1
        elif opens[0] != i and opens[0] in taken:  # "jump-start", annotated at both of its words
            counts["predicates at the place of another"] += 1
        else:
            taken.add(opens[0])
            named = tuple(Span(label_of(s.label), s.start, s.end) for s in spans)
            found.append(Proposition(opens[0], roleset.rpartition(".")[0].lower(), named))
    return tuple(sorted(found, key=lambda proposition: proposition.predicate))


def skeletons_of(propbank: Path) -> dict[tuple[str, str], Path]:
    """The annotation files by genre and name of the document, whatever folder they lie in."""
    root = propbank / "data" / "google" / "ewt"
    found = {
        (path.relative_to(root).parts[0], path.stem): path for path in root.rglob("*.gold_skel")
    }
    if not found:
        raise UserError(f"--propbank {propbank}: there is no .gold_skel file below {root}")
    return found


def name_of(entry: str) -> tuple[str, str]:
    """Genre and name of a document of the list, such as ``answers/00/NAME.xml.conllu``."""
    path = PurePosixPath(entry.removesuffix(".conllu"))
    return path.parts[0], path.name


def source_of(words: Path, entry: str) -> Path:
    """The file with a document's words and trees."""
    genre, name = name_of(entry)
    return words / "not-to-release" / "sources" / genre / f"{name}.conllu"


def document(
    words: Path,
    entry: str,
    skeletons: dict[tuple[str, str], Path],
    kind: str,
    counts: Counter[str],
    main_verbs: Counter[str],
) -> list[Sentence]:
    """The sentences of one document of the list."""
    genre, name = name_of(entry)
    skeleton = skeletons.get((genre, name))
    if skeleton is None:
        counts["documents without annotation"] += 1
        return []
    trees = trees_of(source_of(words, entry))
    sentences = []
    for block in read_blocks(skeleton):
        if block.width < _FIRST:
            message = f"{block.width} columns, but a .gold_skel file has {_FIRST} or more"
            raise block.error(0, message)
        number = block.rows[0][_SENTENCE]
        if not number.isdigit():
            raise block.error(0, f"{number!r} is not the number of a sentence")
        tree = trees.get(int(number))
        reason = why_apart(block, tree)
        if tree is None or reason:
            counts[reason] += 1
            continue
        sentence = Sentence(tree.words, propositions_of(block, kind, counts))
        sentences.append(sentence)
        gold, verbs = {p.predicate for p in sentence.propositions}, main_verbs_of(tree)
        main_verbs.update(
            correct=len(verbs & gold), excess=len(verbs - gold), missed=len(gold - verbs)
        )
    return sentences


def parse_args() -> argparse.Namespace:
    parser = script_parser(__doc__)
    add = parser.add_argument
    add("--propbank", type=Path, required=True, help="a clone of propbank/propbank-release")
    add("--words", type=Path, required=True, help="a clone of UniversalDependencies/UD_English-EWT")
    add("--dest", type=Path, required=True, help="the folder to make")
    add("--predicates", choices=KINDS, default="verbs", help="by their part of speech (verbs)")
    add("--splits", nargs="+", choices=SPLITS, default=SPLITS, help="(all)")
    add("--overwrite", action="store_true", help="replace a folder that was made before")
    return parser.parse_args()


def show(split: str, kind: str, summary: dict[str, Any]) -> None:
    """Print the counts of a split, and whether it is the file that the README speaks of."""
    left_out = ", ".join(f"{number:,} {what}" for what, number in summary["left out"].items())
    print(
        f"{split:5} {summary['documents']:>6,} documents, {summary['sentences']:>6,} sentences, "
        f"{summary['predicates']:>6,} predicates; left out: {left_out or 'nothing'}"
    )
    if tags := summary.get("main verbs as predicates"):
        print(f"{split:5} by gold tags and dependencies alone: predicate F1 {tags['f1']:.2f}")
    if split in KNOWN[kind]:
        same = summary["sha256"] == KNOWN[kind][split]
        print(f"{split:5} {'is' if same else 'is NOT'} the file that the README's numbers are of")


def main() -> None:
    args = parse_args()
    for flag, folder in (("--propbank", args.propbank), ("--words", args.words)):
        if not folder.is_dir():
            raise UserError(f"{flag}: there is no folder {folder}")
    summary: dict[str, dict[str, Any]] = {}
    skeletons = skeletons_of(args.propbank)
    with new_folder(args.dest, overwrite=args.overwrite, mark=MARK) as folder:
        for split in args.splits:
            counts: Counter[str] = Counter()
            main_verbs: Counter[str] = Counter()
            listed = read_lines(args.propbank / "docs" / "evaluation" / f"ewt.{split}.txt")
            entries = [line.strip() for line in listed if line.strip()]
            sentences = [
                sentence
                for entry in entries
                for sentence in document(
                    args.words, entry, skeletons, args.predicates, counts, main_verbs
                )
            ]
            if split == "train":
                texts = ("\n".join(read_lines(source_of(args.words, entry))) for entry in entries)
                write_text(folder / "ewt.train.conllu", "\n\n".join(texts) + "\n")
            path = folder / f"ewt-{args.predicates}.{split}.conll"
            conll.write_columns(path, sentences)
            summary[split] = {
                "documents": len(entries),
                "sentences": len(sentences),
                "predicates": sum(len(sentence.propositions) for sentence in sentences),
                "left out": dict(sorted(counts.items())),
                "sha256": sha256_of(path),
            }
            if args.predicates == "verbs":
                summary[split]["main verbs as predicates"] = Counts(**main_verbs).as_dict()
            show(split, args.predicates, summary[split])
        write_json(folder / MARK, summary)
    print(f"wrote {args.dest}")


if __name__ == "__main__":
    run(main)
