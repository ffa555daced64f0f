#!/usr/bin/env python
"""Download WMT14 English-German, check, clean, learn a vocabulary, encode and binarise.

With a network:

  python examples/wmt14_en_de/prepare.py --dest data-bin/wmt14

Without, from a folder that holds the archives of sources.json:

  python examples/wmt14_en_de/prepare.py --dest data-bin/wmt14 --archives FOLDER

When repeated, an interrupted command resumes at the same step, and a download at the same byte.
"""

import argparse
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from selfattn.errors import UserError
from selfattn_experiments.commands.flags import from_flags
from selfattn_tasks.cli import run, script_parser
from selfattn_tasks.files import check_output_folder
from wmt14.prepare import Options, prepare
from wmt14.sources import find_archives, read_sources


def parse_args() -> argparse.Namespace:
    default = Options()
    parser = script_parser(__doc__)
    add = parser.add_argument
    add("--dest", type=Path, required=True, help="the folder to make, about 7 GB")
    add("--archives", type=Path, metavar="FOLDER", help="take the archives from here")
    add("--mirror", metavar="URL", help="download from URL/ARCHIVE; file:// works, too")
    add(
        "--sources", type=Path, default=Path(__file__).with_name("sources.json"),
        help="archives, checksums and files (sources.json beside this script)",
    )  # fmt: skip
    add("--any-data", action="store_true", help="accept other checksums and counts")
    add("--vocab-size", type=int, default=default.vocab_size, help="pieces (%(default)s)")
    add(
        "--vocab-pairs", type=int, default=default.vocab_pairs,
        help="training pairs to learn them from (%(default)s)",
    )  # fmt: skip
    add(
        "--coverage", type=float, default=default.coverage,
        help="share of the characters that get pieces (%(default)s)",
    )  # fmt: skip
    add(
        "--max-length", type=int, default=default.max_length,
        help="longest training sentence in pieces, with its end (%(default)s)",
    )  # fmt: skip
    add("--max-ratio", type=float, help="most length ratio of a training pair (any)")
    add("--workers", type=int, default=1, help="processes to encode and binarise (1)")
    args = parser.parse_args()
    if args.archives and args.mirror:
        raise UserError("--archives and --mirror exclude each other: give one of them")
    if args.any_data and not args.archives:
        raise UserError("--any-data is for --archives: a download must be what it should be")
    return args


def main() -> None:
    args = parse_args()
    show = partial(print, flush=True)
    options = from_flags(Options, args)
    check_output_folder("--dest", args.dest)
    sources = read_sources(args.sources)
    archives = find_archives(
        sources,
        archives=args.archives,
        downloads=args.dest / "downloads",
        mirror=args.mirror,
        show=show,
        any_data=args.any_data,
    )
    counts = prepare(sources, archives, args.dest, options, any_data=args.any_data, show=show)
    for part, found in counts["encoded"].items():
        long = f", {n:,} too long" if (n := found.get("too many pieces")) else ""
        pieces = ", ".join(
            f"{found[f'{lang} pieces']:,} {lang} pieces ({found[f'{lang} unknown']:,} unknown)"
            for lang in ("en", "de")
        )
        print(f"{part:6} {found['kept']:>9,} pairs{long}, {pieces}")
    print(f"dictionary of {counts['data-bin']['symbols']:,} symbols for both languages")
    print(f"wrote {args.dest}/data-bin (all counts in {args.dest}/prepared.json)")


if __name__ == "__main__":
    run(main)
