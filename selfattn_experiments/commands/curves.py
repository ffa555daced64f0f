"""Draw learning curves from the logs of fairseq-train.

Example, two runs in one picture:

  selfattn curves runs/mtsa/train.log runs/multihead/train.log --output curves.png

A log is the output of fairseq-train, or its --log-file, with --log-format json or simple; of a
folder, its train.log. In the legend a run is named after the folder of its log, or by its path
below the folder that holds all logs if two folders have the same name; --names gives other names.
"""

import argparse
import os
from pathlib import Path

from selfattn.errors import UserError

from ..compare.runs import LOG_NAME
from ..report import plot, read_curves
from ..report.figures import check_picture


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("logs", nargs="+", type=Path, metavar="RUN_LOG")
    parser.add_argument("--output", type=Path, required=True, help="picture: .png, .svg or .pdf")
    parser.add_argument("--names", nargs="+", action="extend", metavar="NAME",
        help="one per log, for the legend")  # fmt: skip
    parser.add_argument("--title", default="", help="a line above the picture")


def names_of(logs: list[Path]) -> list[str]:
    """The logs' folders, or their paths below the folder that holds them all."""
    paths = [os.path.realpath(path) for path in logs]
    folders = [Path(path).parent.name for path in paths]
    if len(set(folders)) == len(logs):
        return folders
    above = os.path.dirname(os.path.commonprefix(paths))
    return [os.path.relpath(path, above) for path in paths]


def main(args: argparse.Namespace) -> None:
    """Read the logs and draw them."""
    logs = [path / LOG_NAME if path.is_dir() else path for path in args.logs]
    names = args.names or names_of(logs)
    if len(names) != len(logs):
        raise UserError(f"--names has {len(names)} names, but there are {len(logs)} logs")
    if len(set(names)) != len(names):
        what = "a name" if args.names else "a log"
        raise UserError(f"{what} is given twice, but the names in the legend must differ")
    check_picture("--output", args.output)
    plot(
        {name: read_curves(log) for name, log in zip(names, logs, strict=True)},
        args.output,
        args.title,
    )
    print(f"wrote {args.output}")
