"""Read the three parts of CoNLL-2012 completely, and compare what they hold with published counts.

Example:

  python examples/srl_conll12/check_data.py --train conll-2012/v4/data/train/data/english \\
      --dev conll-2012/v4/data/development/data/english \\
      --test conll-2012/v9/data/test/data/english

Each part is a folder with *gold_conll files somewhere below. It ends with an error if a file is
bad, cut off or without its words, if a document is in two parts, or if the counts are of no known
release.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from selfattn.errors import UserError
from selfattn_tasks.cli import run, script_parser
from selfattn_tasks.srl.formats import conll, conll12
from selfattn_tasks.text import read_lines

# Files and their parts, which are what the shared task calls documents. The shared task: files by
# TensorFlow Datasets' catalogue (conll2012_ontonotesv5, english_v4), parts as Lee et al. (2017)
# count them. Version 12 of the same catalogue is all of OntoNotes 5.0; its parts are not published.
PUBLISHED: dict[str, dict[str, tuple[int, int | None]]] = {
    "train": {"the shared task": (1_940, 2_802), "version 12": (10_539, None)},
    "dev": {"the shared task": (222, 343), "version 12": (1_370, None)},
    "test": {"the shared task": (222, 348), "version 12": (1_200, None)},
}
_BEGIN = conll12.MARKS[0]


@dataclass(frozen=True)
class Content:
    """What a part holds; documents are named as in their first lines, without the part's number."""

    files: int
    parts: int
    sentences: int
    propositions: int
    documents: frozenset[str]


def content_of(folder: Path) -> Content:
    """Read all files below a folder.

    Raises:
        UserError: if there is none, or one is bad, is cut off or has no words.
    """
    files = conll.files_of(folder)
    begun: list[str] = []
    sentences = propositions = 0
    for file in files:
        found = conll12.sentences_of(file)
        begun += [line for line in read_lines(file) if line.startswith(_BEGIN)]
        conll12.check_words(found, file)
        sentences += len(found)
        propositions += sum(len(sentence.propositions) for sentence in found)
    names = frozenset(line[len(_BEGIN) :].partition(";")[0].strip(" ()") for line in begun)
    return Content(len(files), len(begun), sentences, propositions, names)


def release_of(part: str, found: Content) -> str:
    """The release that has these counts; empty if none does."""
    for release, (files, parts) in PUBLISHED[part].items():
        if found.files == files and parts in (None, found.parts):
            return release
    return ""


def parse_args() -> argparse.Namespace:
    parser = script_parser(__doc__)
    for part in PUBLISHED:
        parser.add_argument(f"--{part}", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--any-counts", action="store_true", help="accept other counts")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    seen: dict[str, str] = {}
    for part in PUBLISHED:
        folder = getattr(args, part)
        if not folder.is_dir():
            raise UserError(f"--{part}: there is no folder {folder}")
        found = content_of(folder)
        release = release_of(part, found)
        print(
            f"{part:5} {found.files:>6,} files, {found.parts:>6,} parts, {found.sentences:>7,} "
            f"sentences, {found.propositions:>7,} propositions: {release or 'no known release'}"
        )
        for name in sorted(found.documents):
            if name in seen:
                raise UserError(f"the document {name} is both in --{seen[name]} and in --{part}")
            seen[name] = part
        if not release and not args.any_counts:
            known = " or ".join(
                f"{files:,} files" + (f" with {parts:,} parts" if parts else "") + f" ({name})"
                for name, (files, parts) in PUBLISHED[part].items()
            )
            raise UserError(
                f"--{part} {folder} has {found.files:,} files with {found.parts:,} parts, but "
                f"published are {known}; --any-counts accepts it"
            )


if __name__ == "__main__":
    run(main)
