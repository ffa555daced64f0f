"""Time and peak memory of whole updates, as ratios to the same model with multi-head attention.

Examples, encoder layers of a Transformer base, and whole updates of fairseq:

  selfattn bench training --csv encoder.csv
  selfattn bench training --level fairseq --lengths 30 --csv fairseq.csv

--level encoder is a stack of encoder layers (layer norm first, without dropout): forward, backward
and an Adam step. --level fairseq is an update of --arch transformer_mtsa by fairseq's own trainer
on random sentences. A method and the reference take turns in one process.
"""

import argparse
import importlib.util
from pathlib import Path

from selfattn.errors import UserError

from . import command

LENGTHS = (30, 64)
LAYERS = {"encoder": 1, "fairseq": 6}


def add_flags(parser: argparse.ArgumentParser) -> None:
    command.add_flags(parser, tuple(LAYERS), LENGTHS, embed_dim=512)
    parser.add_argument("--ffn-dim", type=int, default=2048, help="(default: %(default)s)")
    parser.add_argument("--layers", type=int, help="(default: encoder 1, fairseq 6 and 6)")


def main(args: argparse.Namespace) -> int:
    """Measure and show the table; 1 if a method was refused or became worse."""
    if args.layers is None:
        args.layers = LAYERS[args.level]
    if args.level == "fairseq":
        check_fairseq(args)
        args.methods_module = Path(__file__).with_name("fairseq_update.py")
    return command.execute(args)


def check_fairseq(args: argparse.Namespace) -> None:
    """Refuse what fairseq's updates cannot be measured with."""
    if args.methods_module is not None:
        raise UserError("--methods-module cannot be combined with --level fairseq")
    if args.mode != "training":
        raise UserError(f"--mode is {args.mode}, but --level fairseq measures training only")
    if args.dtype == "float64":
        raise UserError("--dtype is float64, but --level fairseq has float32, bfloat16, float16")
    if args.padding != "none":
        raise UserError(
            f"--padding is {args.padding}, but --level fairseq pads as fairseq does: leave it out"
        )
    if args.read is None and importlib.util.find_spec("fairseq") is None:
        raise UserError("--level fairseq needs fairseq: `selfattn info` says what to do about it")
