"""Main effects and interaction of a 2 x 2 design, with 95 % intervals, from reports of comparisons.

  python examples/significance/factorial.py primary.csv secondary.csv \\
      --cells multihead multihead-masks mtsa-nomasks mtsa --factors masks scores

The four systems: neither factor, the first, the second, both. An effect is a weighted sum of their
means; its interval is Student's with Satterthwaite's (1946) degrees of freedom, which for the
difference of two systems is Welch's.
"""

import argparse
import csv
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy import stats

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from selfattn.errors import UserError
from selfattn_experiments.compare.rendering.cells import markdown as as_markdown
from selfattn_experiments.compare.rendering.cells import signed, span
from selfattn_experiments.compare.rendering.files import COLUMNS
from selfattn_experiments.compare.run_level import TOLERANCE, sample_sd
from selfattn_tasks.cli import run
from selfattn_tasks.text import iter_lines

Cells = Sequence[Sequence[float]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("reports", type=Path, nargs="+", metavar="REPORT.csv")
    add("--cells", nargs=4, required=True, metavar="SYSTEM")
    add("--factors", nargs=2, default=("first", "second"), metavar="NAME")
    add("--metric", default="BLEU")
    args = parser.parse_args()
    if len(set(args.cells)) < 4:
        raise UserError(f"--cells is {' '.join(args.cells)}, but must name four different systems")
    cells = [scores_of(args.reports, name, args.metric) for name in args.cells]
    first, second = args.factors
    rows = []
    for name, weights in (
        (first, (-0.5, 0.5, -0.5, 0.5)),
        (second, (-0.5, -0.5, 0.5, 0.5)),
        (f"{first} x {second}", (1, -1, -1, 1)),
    ):
        effect, low, high = contrast(cells, weights)
        rows.append([name, signed(effect), span((low, high))])
    print("\n".join(as_markdown([args.metric, "effect", "95 % interval"], rows, left=1)))


def scores_of(reports: Sequence[Path], system: str, metric: str) -> list[float]:
    """The scores of a system's runs, each once.

    Raises:
        UserError: if a file is no report, there are fewer than two runs, one has no seed, or two
            scores have the same.
    """
    found: dict[str, float] = {}
    for path in reports:
        rows = csv.DictReader(iter_lines(path))
        if not {*COLUMNS} <= {*(rows.fieldnames or ())}:
            raise UserError(f"{path} is no report: give what `selfattn compare --csv` writes")
        for row in rows:
            if (row["system"], row["metric"], row["quantity"]) != (system, metric, "score"):
                continue
            if not row["seed"]:
                raise UserError(
                    f"{path} does not tell the seed of {row['file']}, which must be known"
                )
            try:
                value = float(row["value"])
            except ValueError:
                value = math.nan
            if not math.isfinite(value):
                raise UserError(f"{path} has the {metric} {row['value']!r}")
            if found.setdefault(row["seed"], value) != value:
                raise UserError(
                    f"{path} has another {metric} of {system}, seed {row['seed']}: give "
                    "reports of one test set and of the same runs"
                )
    if len(found) < 2:
        where = ", ".join(map(str, reports))
        raise UserError(f"{system} has {len(found)} runs with {metric} in {where}; 2 are needed")
    return list(found.values())


def contrast(cells: Cells, weights: Sequence[float]) -> tuple[float, float, float]:
    """The weighted sum of the cells' means, and the limits of its 95 % interval.

    Raises:
        UserError: if no cell has any spread.
    """
    parts = [w**2 * np.var(x, ddof=1) / len(x) for w, x in zip(weights, cells, strict=True)]
    if max(map(sample_sd, cells)) < TOLERANCE:
        raise UserError("the runs of each system score alike: there is no spread for an interval")
    freedom = sum(parts) ** 2 / sum(
        part**2 / (len(x) - 1) for part, x in zip(parts, cells, strict=True)
    )
    effect = sum(w * np.mean(x) for w, x in zip(weights, cells, strict=True))
    half = stats.t.ppf(0.975, freedom) * sum(parts) ** 0.5
    return float(effect), float(effect - half), float(effect + half)


if __name__ == "__main__":
    run(main)
