"""Train a grid of systems and seeds, test and record each run, and summarise them.

Example:

  selfattn runs examples/multi30k_en_de/grid.yaml

The grid file (flags as on a command line; entries in [] are optional):

  task: translation              # or srl, or sentences
  data: data-bin/multi30k        # what `selfattn prepare` made
  output: runs/grid              # will hold a folder SYSTEM-SEED per run, and the summary
  seeds: [1, 2, 3, 4, 5]
  common: --optimizer adam --lr 0.0005 --max-update 3000    # fairseq-train, all systems
  systems:                       # fairseq-train, each
    multihead: --arch transformer_mtsa --encoder-attention multihead
    mtsa: --arch transformer_mtsa --encoder-attention mtsa
    [disa: {flags: --arch transformer_disa, seeds: [1, 2]}] # seeds of its own
  generate: --beam 5 --remove-bpe sentencepiece             # fairseq-generate
  [average: 5]                   # the last checkpoints; or [checkpoint: best] or last
  [references: FILE]             # or {test: FILE, test1: FILE}; default: DATA/raw/test.LANGUAGE
  [lowercase: true]              # scores ignore case
  [keep_checkpoints: true]       # of folds that are tested, too
  [cpus_per_run: 1] [gpus_per_run: 1] [user_dir: plugin]
  [slurm: --partition gpu --gpus 1 --time 24:00:00]         # sbatch

For srl, `gold: FILE` (or {wsj: FILE, brown: FILE}), which it needs, replaces `references`, and
`predict: --decoder he` (flags of `selfattn predict`) replaces `generate`. The same holds for
sentences, whose default `gold` is the test set of the folder; a folder prepared with --folds makes
a run train every fold in turn (SYSTEM-SEED/foldN), and joins what each predicts of the part it held
out.

The same command resumes where it was stopped and skips what is done. Each GPU, or each core,
trains one run at a time. A run's folder holds train.log, the checkpoints, test.hyp (translations,
one per line in corpus order), test.props or test.tsv, and run.json: command, seed, commit,
versions, hardware, time, scores. A run that still has run.json, config.json and those files
counts as done, even without its checkpoints. The grid's folder gets summary.csv and summary.json.

On a cluster:

  selfattn runs GRID.yaml --slurm jobs && jobs/submit.sh
"""

import argparse
import os
import signal
from pathlib import Path

from selfattn.errors import UserError
from selfattn_tasks.cli import option
from selfattn_tasks.files import check_output_folder

from ..process import again
from ..runs.grid import read_grid
from .flags import check_least, from_flags


def add_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("grid", type=Path, metavar="GRID.yaml", help="systems, seeds and flags, see above")
    add("--only", nargs="+", action="extend", default=[], metavar="RUN",
        help="only these runs, such as mtsa-1 or 'mtsa-*'; several such calls may share a grid, "
        "and none of them writes the summary")  # fmt: skip
    add = parser.add_argument_group("where runs are trained").add_argument
    add("--device", choices=("auto", "cpu", "cuda"), default="auto",
        help="auto: the GPUs of CUDA_VISIBLE_DEVICES, or the CPU if there are none")  # fmt: skip
    add("--jobs", type=int, metavar="N",
        help="runs at a time, at most (default: one per GPU, or per core)")  # fmt: skip
    add("--runs-per-gpu", type=int, default=1, metavar="N", help="runs on each GPU (default: 1)")
    add("--retries", type=int, default=2, metavar="N",
        help="restarts of a crashed run, from its last checkpoint (default: 2)")  # fmt: skip
    what = parser.add_argument_group("instead of training").add_mutually_exclusive_group()
    what.add_argument("--dry-run", action="store_true", help="only print the remaining commands")
    what.add_argument("--summary", action="store_true", help="only summarise what is done")
    what.add_argument("--slurm", type=Path, metavar="FOLDER", help="only write SLURM scripts")


def main(args: argparse.Namespace) -> int:
    """Run the grid, or only print its commands, summarise it or write scripts."""
    check_least(args, jobs=1, runs_per_gpu=1, retries=0)
    grid = read_grid(args.grid)
    if not args.dry_run:
        check_output_folder(f"{args.grid}: `output`", grid.output)
    if args.slurm:
        from ..runs.session import choose
        from ..runs.slurm import write_scripts

        names = [f"{system}-{seed}" for system, seed in choose(grid, args.only)]
        flags = [
            word
            for name in ("device", "jobs", "runs_per_gpu", "retries")
            if (value := getattr(args, name)) is not None
            for word in (option(name), str(value))
        ]
        submit = write_scripts(args.slurm, grid, names, again("runs"), flags)
        print(f"{len(names)} runs; start them with {os.path.relpath(submit)}")
        return 0
    # torch takes seconds to import; a mistake in the grid file should be reported at once.
    from ..runs import session

    if args.summary:
        if args.only:
            raise UserError("--only cannot be combined with --summary, which shows all runs")
        return session.summarise(grid)
    options = from_flags(session.Options, args)
    if args.dry_run:
        return session.dry_run(grid, options)
    # A lost connection stops the runner as Ctrl-C does, unless nohup asked it to continue.
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.getsignal(signal.SIGTERM))
    return session.work(grid, options)
