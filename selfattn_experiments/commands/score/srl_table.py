"""Table 4 of the MTSA paper: predicted roles of CoNLL-2005 beside the published figures.

Example: one system with all its seeds, another one, and an ensemble:

  selfattn score srl-table 'MTSA=runs/conll05/deepatt_mtsa-[0-9]' \\
      Bi-LSTM=runs/conll05/deepatt_bilstm-1 'MTSA x 5=runs/conll05/ensemble' --latex table4.tex

A run is a folder with valid.props, test.props and test1.props, as examples/srl_conll05/evaluate.sh
writes them for the development set, WSJ and Brown, and as `selfattn runs` does where the grid's
gold files have these names; a part that is not there stays empty. Several folders of a system give
the mean and the standard deviation. --gold is the folder that `selfattn prepare srl` wrote. P, R,
F1 and Comp. (perfect propositions) are the official script's. To compare with the last four
published rows, decode as their code does: `selfattn predict --decoder published`.

--steps prints the systems of a grid instead, each with its gain over the one that it adds to:

  selfattn score srl-table --steps runs/srl_steps
"""

import argparse
import glob
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from selfattn.errors import UserError
from selfattn_tasks.files import write_text
from selfattn_tasks.srl.propositions import Sentence
from selfattn_tasks.srl.scorer import score
from selfattn_tasks.srl.task import SRL

from ...compare.rendering.cells import latex, markdown
from ...compare.runs import System, name_systems
from ...compare.steps import steps
from ..flags import check_outputs

# By the names that `selfattn prepare srl` gives to the files of --valid and both --test.
PARTS = {"valid": "development", "test": "WSJ", "test1": "Brown"}
BOTH = "WSJ + Brown"
FIGURES = ("P", "R", "F1", "Comp.")
MISSING = "–"
# What published rows have in the place of a number of runs.
PUBLISHED_MARK = "published"
NOTE = (
    "Published: Shen et al. 2019, table 4. Other rows: this project's, scored as by the "
    "official script; several runs: mean ± standard deviation."
)

# Shen et al. (2019), table 4: P, R, F1 and Comp. of each part, in percent; single models with gold
# predicates. The row Multi-head is that of Tan et al. (2018).
PUBLISHED: Mapping[str, str] = {
    "Täckström et al. 2015": "81.2 76.2 78.6 54.4 82.3 77.6 79.9 56.0 74.3 68.6 71.3 39.8",
    "Zhou and Xu 2015": "79.7 79.4 79.6 – 82.9 82.8 82.8 – 70.7 68.2 69.4 –",
    "He et al. 2017": "81.6 81.6 81.6 62.3 83.1 83.0 83.1 64.3 72.8 71.4 72.1 44.8",
    "He et al. 2018": "– – – – – – 83.9 – – – 73.7 –",
    "Strubell et al. 2018": "– – – – 84.7 84.2 84.5 – 73.9 72.4 73.1 –",
    "Bi-LSTM": "81.8 83.4 82.6 63.3 83.0 84.0 83.5 64.6 72.3 72.8 72.5 46.8",
    "Multi-CNN": "75.2 79.6 77.3 53.6 77.3 80.9 79.0 55.5 68.3 70.3 69.3 41.9",
    "Multi-head": "82.6 83.6 83.1 65.2 84.5 85.2 84.8 66.4 73.5 74.6 74.1 48.4",
    "MTSA": "82.8 84.4 83.6 65.4 84.2 85.3 84.8 67.0 74.3 74.6 74.5 49.1",
}


@dataclass(frozen=True)
class Row:
    """A row of the table."""

    system: str
    runs: str  # how many runs the figures are means of; `PUBLISHED_MARK` for a published row
    cells: tuple[str, ...]  # four figures for each of the parts and for both test sets together


def published_rows() -> list[Row]:
    """The rows of the paper, which does not give figures of both test sets together."""
    return [
        Row(name, PUBLISHED_MARK, (*figures.split(), *[MISSING] * len(FIGURES)))
        for name, figures in PUBLISHED.items()
    ]


@cache
def _gold(path: Path) -> list[Sentence]:
    return SRL().read_gold(path)


def row_of(system: str, folders: Sequence[Path], gold: Path) -> Row:
    """Score the runs of a system: means, with the standard deviation if there are several.

    The folder ``gold`` is as ``selfattn prepare srl`` wrote it.

    Raises:
        UserError: if a run has no such file, a file is bad, or runs have different files.
    """
    runs = [_scores(folder, gold) for folder in folders]
    for folder, found in zip(folders, runs, strict=True):
        if found.keys() != runs[0].keys():
            raise UserError(
                f"{folder} has props files of {', '.join(found)}, but {folders[0]} of "
                f"{', '.join(runs[0])}: runs of one system must have the same"
            )
    cells: list[str] = []
    for title in (*PARTS.values(), BOTH):
        if title in runs[0]:
            cells += map(_cell, zip(*(found[title] for found in runs), strict=True))
        else:
            cells += [MISSING] * len(FIGURES)
    return Row(system, str(len(runs)), tuple(cells))


def _scores(folder: Path, gold: Path) -> dict[str, tuple[float, ...]]:
    """The four figures by the title of the part, for all parts that the run has."""
    sides: dict[str, tuple[list[Sentence], list[Sentence]]] = {}
    for part, title in PARTS.items():
        path = folder / f"{part}.props"
        if path.is_file():
            wanted = _gold(gold / f"{part}.conll")
            found = SRL().read_outputs(path, wanted, gold / f"{part}.conll")
            sides[title] = wanted, found
            for warning in SRL().output_warnings(str(path), path, found, wanted, False):
                print(f"warning: {warning}", file=sys.stderr)
    if not sides:
        names = ", ".join(f"{part}.props" for part in PARTS)
        raise UserError(f"{folder} has none of the files {names}, which hold predicted roles")
    tests = [sides[PARTS[part]] for part in ("test", "test1") if PARTS[part] in sides]
    if len(tests) == 2:
        wanted, found = ([*first, *second] for first, second in zip(*tests, strict=True))
        sides[BOTH] = wanted, found
    return {title: _figures(*pair) for title, pair in sides.items()}


def _figures(gold: list[Sentence], found: list[Sentence]) -> tuple[float, ...]:
    result = score(gold, found)
    overall = result.overall
    return overall.precision, overall.recall, overall.f1, result.perfect_percent


def _cell(values: Sequence[float]) -> str:
    mean = f"{statistics.fmean(values):.2f}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):.2f}"


def to_markdown(rows: Iterable[Row]) -> str:
    """The table in Markdown, with the title of the part in each head, and a note below it."""
    heads = [f"{title} {name}" for title in (*PARTS.values(), BOTH) for name in FIGURES]
    table = markdown(
        ["system", "runs", *heads], [[row.system, row.runs, *row.cells] for row in rows], left=1
    )
    return "\n".join([*table, "", NOTE]) + "\n"


def to_latex(rows: Iterable[Row]) -> str:
    """The table in LaTeX (package booktabs), with a note as a comment.

    A rule divides published rows from others.
    """
    titles = [latex(title) for title in (*PARTS.values(), BOTH)]
    width = len(FIGURES)
    lines = [
        f"% {NOTE}",
        r"% needs \usepackage{booktabs}",
        rf"\begin{{tabular}}{{lr{'r' * width * len(titles)}}}",
        r"\toprule",
        " & & " + " & ".join(rf"\multicolumn{{{width}}}{{c}}{{{t}}}" for t in titles) + r" \\",
        " & ".join(["system", "runs", *FIGURES * len(titles)]) + r" \\",
    ]
    before = None
    for row in rows:
        if (row.runs == PUBLISHED_MARK) != before:
            lines.append(r"\midrule")
        before = row.runs == PUBLISHED_MARK
        cells = (row.system, row.runs, *row.cells)
        lines.append(" & ".join(latex(cell) for cell in cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def add_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("runs", nargs="*", metavar="NAME=GLOB",
        help="a system and the folders of its runs; none: the published rows alone")  # fmt: skip
    add("--gold", type=Path, default=Path("data-bin/conll05"), metavar="FOLDER",
        help="prepared data with valid.conll, test.conll and test1.conll (default: "
        "data-bin/conll05)")  # fmt: skip
    add("--steps", type=Path, metavar="FOLDER",
        help="instead: the output of a grid like examples/srl_ewt/steps.yaml")  # fmt: skip
    add("--markdown", type=Path, metavar="FILE", help="write the table there, not to the terminal")
    add("--latex", type=Path, metavar="FILE", help="write it for a paper, too")


def folders_of(system: System) -> list[Path]:
    """The folders of a system's runs, by name.

    Raises:
        UserError: if there is none.
    """
    found = sorted(Path(path) for path in glob.glob(system.pattern))
    folders = [path for path in found if path.is_dir()]
    if not folders:
        raise UserError(f"{system.name}: no folder matches {system.pattern!r}")
    return folders


def main(args: argparse.Namespace) -> None:
    """Score all runs and write the table."""
    check_outputs(args, "markdown", "latex")
    if args.steps is not None:
        if args.runs or args.latex:
            args.refuse("--steps takes a grid's folder and writes Markdown alone")
        heads, *cells = steps(args.steps, "F1")
        table = "\n".join([*markdown(heads, cells, left=1), ""])
    else:
        systems = [(system.name, folders_of(system)) for system in name_systems(args.runs)]
        rows = published_rows()
        rows += [row_of(name, folders, args.gold) for name, folders in systems]
        table = to_markdown(rows)
        if args.latex is not None:
            write_text(args.latex, to_latex(rows))
    if args.markdown is None:
        sys.stdout.write(table)
    else:
        write_text(args.markdown, table)
