"""What the two benchmark commands share: flags, and measure, show, write, draw, compare."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from selfattn.errors import UserError, needed
from selfattn_experiments.commands.flags import check_least, check_outputs, from_flags
from selfattn_tasks.files import check_output_folder, regular_target

from . import memory, plots, table
from .method import DTYPES, MODES, PADDINGS, REFERENCES, Plan, Setup
from .methods import choose
from .sweep import Result, run
from .table import Row
from .timing import Effort

QUICK = Effort(seconds=0.2, sample=0.01, least=3, most=3)


def add_flags(
    parser: argparse.ArgumentParser, levels: Sequence[str], lengths: Sequence[int], embed_dim: int
) -> None:
    """Add the flags of a benchmark; the first of ``levels`` is the default."""
    add = parser.add_argument
    add("--level", choices=levels, default=levels[0], help="what to measure (default: %(default)s)")
    add(
        "--methods", nargs="+", metavar="NAME", help="what to run (default: all; --list shows them)"
    )
    usual = "multihead; sdpa at level operator" if "operator" in levels else "multihead"
    add("--reference", metavar="NAME", help=f"what ratios are taken to (default: {usual})")
    add(
        "--methods-module", type=Path, metavar="FILE.py", help="your own methods, as a list METHODS"
    )
    add("--list", action="store_true", help="list the methods of the level and stop")
    add("--lengths", type=int, nargs="+", default=list(lengths), metavar="N", help="in tokens")
    add("--mode", choices=MODES, default=MODES[0], help="forward and backward, or forward only")
    add("--device", choices=("cpu", "cuda"), default="cpu")
    add("--dtype", choices=DTYPES, default=DTYPES[0])
    add("--batch", type=int, default=64, help="sentences per batch (default: %(default)s)")
    add("--max-tokens", type=int, default=16384,
        help="per batch: long sentences make smaller batches (default: %(default)s)")  # fmt: skip
    add("--embed-dim", type=int, default=embed_dim, help="features (default: %(default)s)")
    add("--heads", type=int, default=8, help="(default: %(default)s)")
    add("--padding", choices=PADDINGS, default=PADDINGS[0], help="none: sentences of one length")
    add("--backend", default="auto", help="of this project's operators (default: %(default)s)")
    add("--threads", type=int, default=1, help="CPU threads (default: %(default)s)")
    add("--wall", action="store_true",
        help="elapsed instead of CPU time: for several threads, on a quiet machine")  # fmt: skip
    add("--seconds", type=float, default=8.0,
        help="for a method and its reference at each length (default: %(default)s)")  # fmt: skip
    add("--longest", type=float, default=60.0, metavar="SECONDS",
        help="skip a length at which one step takes longer (default: %(default)s)")  # fmt: skip
    add("--memory-limit", type=float, metavar="GIB",
        help="memory a process may use on a CPU (default: 60 %% of what is free)")  # fmt: skip
    add("--no-memory", action="store_true", help="do not measure peak memory")
    add("--quick", action="store_true", help="a few samples at tiny sizes, to try the command")
    add("--csv", type=Path, metavar="FILE", help="write the rows as CSV")
    add("--plots", type=Path, metavar="FOLDER", help="plot time and memory as PNG and SVG")
    add(
        "--compare",
        type=Path,
        metavar="OLD.csv",
        help="list what got slower or larger; exit code 1 if anything did",
    )
    add(
        "--read",
        type=Path,
        metavar="FILE.csv",
        help="show, plot or compare the rows of this file; measure nothing",
    )


def setup_of(args: argparse.Namespace) -> Setup:
    """The flags as a ``Setup``, checked.

    Raises:
        UserError: if a flag has a value that is not allowed, or there is no GPU.
    """
    check_least(args, batch=1, max_tokens=1, embed_dim=1, heads=1, threads=1)
    if min(args.lengths) < 2:
        raise UserError(f"--lengths has {min(args.lengths)}, but a length must be at least 2")
    if args.embed_dim % args.heads or args.heads % 2:
        raise UserError(
            f"--heads is {args.heads}, but must be even and divide --embed-dim {args.embed_dim}"
        )
    if args.device == "cuda" and not torch.cuda.is_available():
        raise UserError("--device is cuda, but torch finds no GPU: `selfattn info` says why")
    return from_flags(Setup, args)


def execute(args: argparse.Namespace) -> int:
    """Run a benchmark command with its flags.

    Returns:
        0, or 1 if a row was refused or became worse.

    Raises:
        UserError: if a flag, a file or a method does not fit.
    """
    if args.list:
        for method in choose(args.level, args.methods, args.methods_module):
            print(f"{method.name:<20} {method.label}")
        return 0
    _check_files(args)
    old = None if args.compare is None else table.read(args.compare)
    refused: list[Result] = []
    if args.read is not None:
        rows = table.read(args.read, "--read")
    else:
        # A pipe takes the rows once, at the end; a file has them as they come.
        growing = args.csv is not None and regular_target(args.csv) is not None
        keep = args.csv if growing else None
        rows, refused = run(_plan(args), _say, lambda rows: _write(keep, rows))
    _write(args.csv, rows)
    if rows:
        print(table.markdown(rows))
        if args.plots is not None:
            for path in plots.draw(rows, args.plots):
                _say(f"wrote {path}")
    for row in refused:
        _say(f"refused: {row['method']}, length {row['length']}: {row['reason']}")
    worse: list[str] = []
    if old is not None and rows:
        worse = table.regressions(rows, old, args.compare)
        print(f"\nrows worse than in {args.compare}: {len(worse)}", *worse, sep="\n")
    return 1 if refused or worse else 0


def _write(path: Path | None, rows: Sequence[Row]) -> None:
    if path is not None:
        table.write(path, rows)


def _check_files(args: argparse.Namespace) -> None:
    """Find out before hours of measuring that a result could not be written."""
    check_outputs(args, "csv")
    if args.plots is not None:
        check_output_folder("--plots", args.plots)
        needed("matplotlib")


def _plan(args: argparse.Namespace) -> Plan:
    if args.quick:
        args.lengths, args.batch, args.embed_dim, args.heads = [16, 64], 8, 64, 4
        args.ffn_dim = 64
    setup = setup_of(args)
    limit = None
    if args.device == "cpu":
        free = memory.available()
        limit = None if free is None else int(0.6 * free)
        if args.memory_limit is not None:
            limit = int(args.memory_limit * 2**30)
    reference = args.reference or REFERENCES.get(args.level, "multihead")
    choose(args.level, [reference], args.methods_module, "--reference")
    return Plan(
        level=args.level,
        reference=reference,
        methods=[
            m.name
            for m in choose(args.level, args.methods, args.methods_module)
            if args.methods or args.device == "cuda" or not m.gpu_only
        ],
        setup=setup,
        shapes=[
            (length, max(1, min(args.batch, args.max_tokens // length)))
            for length in sorted(set(args.lengths))
        ],
        threads=args.threads,
        effort=replace(QUICK if args.quick else Effort(args.seconds), wall=args.wall),
        longest=args.longest,
        memory_limit=limit,
        with_memory=not args.no_memory,
        methods_module=args.methods_module,
    )


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
