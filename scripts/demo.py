"""Train a small translation model on real text on this machine, and show what it learned.

Example:

  python scripts/demo.py --attention mtsa
  python scripts/demo.py --attention multihead
  python scripts/demo.py --pair mytext.en mytext.de

Everything is written to demo/. Finished steps are not repeated, and a stopped run is resumed; a
second call needs no network. Runs with the same text, --updates and --width are compared.
"""

import argparse
import shlex
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples" / "demo"))

from selfattn.errors import UserError
from selfattn.layers import ATTENTIONS
from selfattn_experiments.commands.flags import from_flags
from selfattn_tasks.cli import run, script_parser
from selfattn_tasks.files import check_output_folder
from tour.tour import Plan, short, tour
from tour.training import Size

ROOT = Path(__file__).resolve().parents[1]


def parse_args() -> argparse.Namespace:
    size = Size()
    parser = script_parser(__doc__)
    add = parser.add_argument
    add("--attention", choices=tuple(ATTENTIONS), default="mtsa", help="of the encoder (mtsa)")
    add("--pair", nargs=2, type=Path, metavar=("EN", "DE"), help="your own text, line by line")
    add("--dir", type=Path, default=ROOT / "demo", help="where everything is written (demo)")
    add("--wheels", type=Path, default=ROOT / ".wheels", help="downloads (.wheels)")
    add("--updates", type=int, default=size.updates, help=f"optimizer steps ({size.updates})")
    add("--width", type=int, default=size.width, help=f"of the model ({size.width})")
    add("--vocab-size", type=int, default=4000, help="SentencePiece pieces (4000)")
    add("--held-out", type=int, default=500, help="sentences to validate, and to test (500)")
    add("--seed", type=int, default=size.seed, help=f"of the run ({size.seed})")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    size = from_flags(Size, args)
    for flag, value, divisor in (("--updates", size.updates, 1), ("--width", size.width, 8)):
        if value < 1 or value % divisor:
            raise UserError(f"{flag} is {value}, but must be a positive multiple of {divisor}")
    check_output_folder("--dir", args.dir)
    tour(
        from_flags(
            Plan,
            args,
            root=ROOT,
            folder=short(args.dir),
            size=size,
            pair=args.pair and tuple(args.pair),
            baseline=baseline_command(args),
        )
    )


def baseline_command(args: argparse.Namespace) -> str:
    """The command that trains the other attention on the same text."""
    other = "multihead" if args.attention != "multihead" else "mtsa"
    if sys.argv[1:] == ["--attention", args.attention]:
        return f"make demo ATTENTION={other}"
    parser = argparse.ArgumentParser()
    parser.add_argument("--attention")  # also written as --attention=mtsa, or shorter
    _, rest = parser.parse_known_args()
    return shlex.join(["python", "scripts/demo.py", "--attention", other, *rest])


if __name__ == "__main__":
    run(main)
