"""Is a system really better? Compare several runs of each with honest statistics.

Example, each system trained with several seeds:

  selfattn compare --ref data-bin/my/raw/test.de \\
      --baseline 'runs/multihead/seed*/test.out' --system 'runs/mtsa/seed*/test.out'

Example, two test sets, names for the tables, and files for a paper:

  selfattn compare --ref flickr=raw/flickr.de --ref coco=raw/coco.de \\
      --baseline base='runs/multihead/*/{test}.out' --system mtsa='runs/mtsa/*/{test}.out' \\
      --markdown report.md --latex table.tex --plots pictures

Hypotheses are the output of fairseq-generate, plain text with one translation per line, or
predicted semantic roles (then --ref is the gold file, and the scores are F1 and perfect
propositions), or predictions of sentences (the scores are accuracy, or Pearson, Spearman and MSE,
as the gold file has classes or scores). The verdict rests on Welch's t-test over runs of the
primary metric, with Holm's correction over systems and test sets; the other metrics are shown
beside it.
"""

import argparse
import math
import shutil
from pathlib import Path

from selfattn.errors import UserError
from selfattn_tasks.cli import moving_line, typed_command
from selfattn_tasks.files import check_no_pipes, check_output_folder, write_json, write_text

from ..compare.compare import Request, compare
from ..compare.reading import TASKS
from ..compare.rendering.files import render, to_csv, to_latex, to_markdown
from ..compare.rendering.plots import draw
from ..compare.results import Settings
from ..compare.runs import name_logs, name_systems, name_test_sets
from .flags import check_least, check_outputs, from_flags

FILES = ("json", "csv", "markdown", "latex")


def add_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("what is compared").add_argument
    add("--baseline", required=True, action="append", metavar="[NAME=]GLOB",
        help="runs of the baseline, in quotes")  # fmt: skip
    add(
        "--system", required=True, action="append", metavar="[NAME=]GLOB",
        help="runs of a system to compare with it; repeat for more",
    )  # fmt: skip
    add(
        "--ref", required=True, action="append", metavar="[NAME=]FILE",
        help="references or gold roles; repeat for more test sets, {test} in a GLOB is the NAME",
    )  # fmt: skip
    add("--task", choices=TASKS, default="auto", help="default: what --ref holds")
    add = parser.add_argument_group("scores and tests").add_argument
    add(
        "--metrics", nargs="+", action="extend", default=[], metavar="M",
        help="bleu chrf ter; f1 comp; accuracy; or pearson spearman mse (default: all)",
    )  # fmt: skip
    add(
        "--primary", default="", metavar="M",
        help="gives the verdict (default: of those compared, the first in the order above)",
    )  # fmt: skip
    add("--lowercase", action="store_true", help="ignore case in BLEU and chrF")
    add("--tokenize", default="13a", help="BLEU's tokenizer (default: 13a)")
    add("--alpha", type=float, default=0.05, help="level of the verdict (default: 0.05)")
    add("--power", type=float, default=0.8, help="power to plan seeds for (default: 0.8)")
    add(
        "--relevant", type=float, metavar="POINTS",
        help="a difference that would matter: `equivalent` is below it (default: 0.5 points of a "
        "score in percent; 0.01 of a correlation or a squared error)",
    )  # fmt: skip
    add(
        "--looked-after", type=int, nargs="+", action="extend", default=[], metavar="N",
        help="the results were seen with N runs per system, then runs were added: mark the report",
    )  # fmt: skip
    add("--samples", type=int, default=10_000, help="draws of sentences (default: 10000)")
    add("--seed", type=int, default=1, help="of these draws (default: 1)")
    add = parser.add_argument_group("files").add_argument
    add(
        "--no-cache", action="store_true",
        help="count again, and do not keep the counts beside the hypotheses as .FILE.METRIC.counts",
    )  # fmt: skip
    for name in FILES:
        add(f"--{name}", type=Path, metavar="FILE", help=f"also write the report as {name}")
    add("--plots", type=Path, metavar="FOLDER", help="draw runs, differences and learning curves")
    add(
        "--logs", action="append", default=[], metavar="NAME=GLOB",
        help="logs of a system (default: train.log beside its hypotheses, or one folder up)",
    )  # fmt: skip


def check(args: argparse.Namespace) -> None:
    """Refuse bad numbers and places before minutes of scoring."""
    if len(args.baseline) > 1:
        raise UserError(
            f"--baseline is given {len(args.baseline)} times, but must be given once; --system "
            "names the others"
        )
    for name, pattern in (("baseline", *args.baseline), *(("system", s) for s in args.system)):
        if not pattern:
            raise UserError(f"--{name} is '', but must be a pattern of files, or NAME=PATTERN")
    for name in ("alpha", "power"):
        if not 0 < getattr(args, name) < 1:
            raise UserError(f"--{name} is {getattr(args, name)}, but must be between 0 and 1")
    if args.relevant is not None and not 0 < args.relevant < math.inf:
        raise UserError(f"--relevant is {args.relevant}, but must be a number above 0")
    if min(args.looked_after, default=1) < 1:
        raise UserError(f"--looked-after is {min(args.looked_after)}, but must be 1 or more")
    if not 100 <= args.samples <= 1_000_000:
        raise UserError(f"--samples is {args.samples}, but must be from 100 to 1000000")
    check_least(args, seed=0)
    if args.plots is not None:
        check_output_folder("--plots", args.plots)
    if args.logs and args.plots is None:
        raise UserError("--logs is for the learning curves of --plots FOLDER, which is missing")


def main(args: argparse.Namespace) -> None:
    """Compare the systems, write the requested files and print the report."""
    check(args)
    args.relevant = args.relevant or 0.0  # the task says it
    args.looked_after = tuple(sorted(set(args.looked_after)))
    settings = from_flags(Settings, args)
    systems = name_systems([*args.baseline, *args.system])
    tests = name_test_sets(args.ref)
    check_no_pipes(*(path for _, path in tests))
    scored = (path for system in systems for name, _ in tests for path in system.files(name))
    check_outputs(args, *FILES, inputs=[*scored, *(path for _, path in tests)])
    logs = name_logs(args.logs, systems)
    request = Request(
        systems, tests, args.task, args.metrics, settings, typed_command(),
        keep_counts=not args.no_cache,
    )  # fmt: skip
    try:
        report = compare(request, moving_line)
    finally:
        moving_line("")
    if args.json is not None:
        write_json(args.json, report.as_dict())
    for path, form in ((args.csv, to_csv), (args.markdown, to_markdown), (args.latex, to_latex)):
        if path is not None:
            write_text(path, form(report))
    # Before the report, whose reader may leave: compare ... | head.
    drawn = draw(report, args.plots, logs) if args.plots is not None else []
    print(render(report, min(120, shutil.get_terminal_size((100, 24)).columns)), end="")
    for path in drawn:
        print(f"wrote {path}")
