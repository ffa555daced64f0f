"""Average the weights of several checkpoints into one that fairseq-generate can load.

Example, the last 5 epochs of a run:

  selfattn average --dir runs/mtsa --last 5 --output runs/mtsa/average5.pt

Example, named files (the flags and the vocabulary check come from the last one):

  selfattn average --output runs/mtsa/average.pt \\
      --inputs runs/mtsa/checkpoint8.pt runs/mtsa/checkpoint9.pt

The result holds no state of the optimizer. One input alone makes a small file of a trained model:

  selfattn average --inputs runs/srl/checkpoint_best.pt --half --keep-vectors 15000 \\
      --output srl-small.pt

A tagger's confidences are calibrated on sentences that it has not learnt: --calibrate dev.conll.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from selfattn.errors import UserError
from selfattn_tasks import saved
from selfattn_tasks.checkpoints import save_interval, updates
from selfattn_tasks.progress import Progress
from selfattn_tasks.srl import Sentence
from selfattn_tasks.srl.formats import conll, conll12
from selfattn_tasks.srl.tagger.state import KEY, keep_vectors, set_temperature

from .. import averaging
from .flags import check_outputs


def add_flags(parser: argparse.ArgumentParser) -> None:
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--inputs", nargs="+", action="extend", type=Path, metavar="CKPT",
        help="the files, or folders with one")  # fmt: skip
    source.add_argument("--dir", type=Path, help="the run's --save-dir")
    add = parser.add_argument
    add("--last", type=int, metavar="N", help="with --dir: the newest N checkpoints")
    add("--by", choices=("epoch", "update"),
        help="with --dir: checkpointN.pt or checkpoint_EPOCH_N.pt (default: epoch)")  # fmt: skip
    add("--half", action="store_true", help="write weights in half precision; loaded as float32")
    add("--keep-vectors", type=int, metavar="N",
        help="of a tagger: keep the vectors of N words that training lacks, the first in their "
        "file")  # fmt: skip
    add("--calibrate", type=Path, metavar="GOLD",
        help="of a tagger: store the temperature, from 0.5 to 3, with which confidences of spans "
        "fit this file best")  # fmt: skip
    add("--output", required=True, type=Path, metavar="FILE")


def check(args: argparse.Namespace) -> None:
    """Refuse flags that do not fit, before anything is read or written."""
    if args.dir and args.last is None:
        args.refuse("--dir needs --last N")
    for flag in ("last", "by"):
        if args.inputs and getattr(args, flag) is not None:
            args.refuse(f"--{flag} belongs to --dir, not to --inputs")
    if args.keep_vectors is not None and args.keep_vectors < 0:
        args.refuse(f"--keep-vectors is {args.keep_vectors}, but must be 0 or more")


def main(args: argparse.Namespace) -> None:
    """Average the checkpoints and write the result."""
    check(args)
    inputs = [saved.find_checkpoint(path) for path in args.inputs or ()]
    newest = {} if inputs else averaging.latest(args.dir, args.last, args.by or "epoch")
    inputs = inputs or list(newest)
    check_outputs(args, "output", inputs=filter(None, [*inputs, args.calibrate]))
    gold = _gold(args.calibrate) if args.calibrate else []
    state = averaging.average(inputs)
    if args.keep_vectors is not None:
        keep_vectors(state, args.keep_vectors, inputs[-1])
    is_tagger = KEY in (state.get("task_state") or {})
    if args.calibrate or (len(inputs) > 1 and is_tagger):  # it fits one of them
        set_temperature(state, 1.0, inputs[-1])
    if args.half:
        averaging.halve(state)
    if args.calibrate is not None:
        temperature = _calibrated(state, args.output, gold)
        set_temperature(state, temperature, args.output)
        print(f"temperature {temperature}")
    saved.write(state, args.output)
    print(f"averaged {', '.join(map(str, inputs))} into {args.output}")
    if args.by == "update":
        last = args.dir / "checkpoint_last.pt"
        _warn_of_gaps(set(newest.values()), last, save_interval(state))


def _warn_of_gaps(averaged: set[int], last: Path, interval: int) -> None:
    try:
        end = updates(last)
    except UserError:  # half a file, none, or one without its history
        end = max(averaged)
    due = {end, *range(min(averaged), end + 1, interval or end)}
    if missed := sorted(due - averaged):
        print(
            f"warning: averaged are the updates {', '.join(map(str, sorted(averaged)))}, not "
            f"{', '.join(map(str, missed))}, of which there is no checkpoint by update; the cause "
            "may be --no-epoch-checkpoints, --keep-last-epochs, --keep-interval-updates or an "
            "update off the interval",
            file=sys.stderr,
        )


def _gold(path: Path) -> list[Sentence]:
    gold = conll.read(path)
    if not any(sentence.has_words for sentence in gold):
        raise UserError(f"--calibrate is {path}, which has no words; give a file with both")
    if not any(sentence.propositions for sentence in gold):
        raise UserError(f"--calibrate is {path}, which has no predicate; give annotated sentences")
    conll12.check_words(gold, path)
    return gold


def _calibrated(state: dict[str, Any], output: Path, gold: Sequence[Sentence]) -> float:
    """The temperature of what will be written, with rounded weights."""
    from selfattn_tasks.srl.tagger.predictor import Predictor
    from selfattn_tasks.srl.tagger.reliability import TEMPERATURES, fit_temperature

    draft = output.with_name(f".{output.name}.draft")  # beside it: so may a frozen encoder be
    try:
        saved.write(state, draft)
        predictor = Predictor.load(draft)
    finally:
        draft.unlink(missing_ok=True)
    total = sum(len(sentence.propositions) for sentence in gold)
    with Progress(None, "calibrating", total, "propositions", stream=sys.stderr) as bar:
        fitted = fit_temperature(predictor, gold, progress=bar.to)
    if fitted in (TEMPERATURES[0], TEMPERATURES[-1]):
        print(
            f"warning: the temperature {fitted} is the last of those tried, {TEMPERATURES[0]} to "
            f"{TEMPERATURES[-1]}; one beyond may fit better",
            file=sys.stderr,
        )
    return fitted
