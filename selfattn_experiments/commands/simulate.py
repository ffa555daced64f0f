"""How often are the tests of `selfattn compare` wrong when there is no difference?

Example, and a quick one:

  selfattn simulate --repetitions 2000 --output table.md --plot rates.png
  selfattn simulate --repetitions 100

Pairs of equally good systems are simulated and given to each test. 5 % of the pairs should come
out below 0.05; tests over sentences exceed this where training seeds differ.
"""

import argparse
from pathlib import Path

from selfattn_tasks.cli import moving_line
from selfattn_tasks.files import write_text

from ..compare.rendering.plots import draw_rates
from ..compare.simulation import HEADER, SCENARIOS, markdown_row, simulate
from ..report.figures import check_picture
from .flags import check_least, check_outputs


def add_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--repetitions", type=int, default=2000, help="pairs of systems (default: 2000)")
    add("--sentences", type=int, default=300, help="of a test set (default: 300)")
    add("--samples", type=int, default=299, help="draws of sentences (default: 299)")
    add("--seed", type=int, default=1, help="of all random numbers (default: 1)")
    add("--output", type=Path, metavar="FILE", help="also write the table here")
    add("--plot", type=Path, metavar="FILE", help="draw it, as .png, .svg or .pdf")


def check(args: argparse.Namespace) -> None:
    """Refuse flags that do not fit, before anything is read or written."""
    check_least(args, repetitions=1, sentences=2, samples=19, seed=0)
    check_outputs(args, "output", "plot")
    if args.plot is not None:
        check_picture("--plot", args.plot)


def main(args: argparse.Namespace) -> None:
    """Run the tests again and again, and print how often they are wrong."""
    check(args)
    found = simulate(
        SCENARIOS, args.repetitions, sentences=args.sentences, samples=args.samples, seed=args.seed,
        say=moving_line,
    )  # fmt: skip
    rates, lines = [], [HEADER]
    print(HEADER, flush=True)
    for rate in found:
        rates.append(rate)
        lines.append(markdown_row(rate))
        print(lines[-1], flush=True)
    if args.output is not None:
        write_text(args.output, "\n".join(lines) + "\n")
    if args.plot is not None:
        draw_rates(rates, args.plot)
        print(f"wrote {args.plot}")
