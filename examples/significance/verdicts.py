"""What a number of seeds can find: simulated experiments, judged as a protocol judges real ones.

    python examples/significance/verdicts.py --runs 8:8 8:4 --spreads 0.3:0.4 0.2:0.6 --margin 0.5

An experiment draws a score for every run of two systems and asks the tests of compare_bleu.py,
Welch's and the two one-sided ones, at the strictest level of Holm's correction. Its fellow,
scripts/simulate_tests.py, makes up whole test sets, but only for systems that are equally good.
"""

import argparse
import math
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from selfattn.errors import UserError, needed
from selfattn_experiments.commands.flags import check_least
from selfattn_tasks.cli import run, script_parser

HEADER = (
    "| runs | spreads | scores | true difference | better or worse | equivalent |\n"
    "|---|---|---|---|---|---|"
)


def two(kind: type, least: float) -> Any:
    """Reads 8:4, of the baseline and of the system."""

    def pair(text: str) -> tuple[Any, Any]:
        try:
            first, second = map(kind, text.split(":"))
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text} is not allowed; give N:M") from None
        if not least <= min(first, second) <= max(first, second) < math.inf:  # also nan
            raise argparse.ArgumentTypeError(f"{text} is not allowed; both must be {least} or more")
        return first, second

    return pair


def draw(shape: tuple[int, int], spread: float, skew: bool, rng: np.random.Generator) -> Any:
    """Scores around 0, an experiment a row; skewed: most are a little better, a few much worse."""
    luck = 1 - rng.exponential(size=shape) if skew else rng.normal(size=shape)
    return spread * luck


def verdicts(x: Any, y: Any, margin: float, level: float) -> tuple[Any, Any]:
    """Which experiments, rows of scores, end with a difference, and which with equivalence."""
    test, unequal = needed("scipy.stats").ttest_ind, {"axis": 1, "equal_var": False}
    different = test(y, x, **unequal).pvalue < level
    above = test(y + margin, x, alternative="greater", **unequal).pvalue
    below = test(y - margin, x, alternative="less", **unequal).pvalue
    return different, ~different & (np.maximum(above, below) < level)


def main() -> None:
    """Print the table."""
    parser = script_parser(__doc__)
    add = parser.add_argument
    add("--runs", type=two(int, 2), nargs="+", required=True, metavar="N:M", help="of both sides")
    add("--spreads", type=two(float, 0), nargs="+", required=True, metavar="SD:SD", help="of runs")
    add("--differences", type=float, nargs="+", default=[0.0, 0.5, 1.0], help="true ones (0 0.5 1)")
    add("--margin", type=float, default=0.5, help="of equivalence, in points (0.5)")
    add("--comparisons", type=int, default=3, help="that share the level of 0.05 (3)")
    add("--experiments", type=int, default=20_000, help="a row of the table (20000)")
    add("--seed", type=int, default=1, help="of all random numbers (1)")
    args = parser.parse_args()
    check_least(args, comparisons=1, experiments=1, seed=0, margin=0)
    if not all(map(math.isfinite, args.differences)):
        raise UserError(f"--differences are {args.differences}, but must be finite")
    rng = np.random.default_rng(args.seed)
    print(HEADER)
    level = 0.05 / args.comparisons
    for runs, spreads, skew, difference in product(
        args.runs, args.spreads, (False, True), args.differences
    ):
        x, y = (
            draw((args.experiments, n), sd, skew, rng) for n, sd in zip(runs, spreads, strict=True)
        )
        different, equivalent = verdicts(x, y + difference, args.margin, level)
        print(
            f"| {runs[0]} and {runs[1]} | {spreads[0]} and {spreads[1]} "
            f"| {'skewed' if skew else 'normal'} | {difference:g} "
            f"| {different.mean():.2f} | {equivalent.mean():.2f} |"
        )


if __name__ == "__main__":
    run(main)
