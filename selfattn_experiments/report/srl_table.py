"""Table 4 of the MTSA paper, semantic roles of CoNLL-2005: published rows, and runs beside them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from selfattn.errors import UserError
from selfattn_tasks.srl.propositions import Sentence
from selfattn_tasks.srl.scorer import score
from selfattn_tasks.srl.task import SRL

# By the names that `selfattn prepare srl` gives to the files of --valid and both --test.
PARTS = {"valid": "development", "test": "WSJ", "test1": "Brown"}
BOTH = "WSJ + Brown"
FIGURES = ("P", "R", "F1", "Comp.")
MISSING = "–"
# What published rows have in the place of a number of runs.
PUBLISHED_MARK = "published"

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
    """A row of the table.

    Attributes:
        system: its name.
        runs: how many runs the figures are means of; ``PUBLISHED_MARK`` for a published row.
        cells: four figures for each of the parts and for both test sets together.
    """

    system: str
    runs: str
    cells: tuple[str, ...]


def published_rows() -> list[Row]:
    """The rows of the paper, which does not give figures of both test sets together."""
    return [
        Row(name, PUBLISHED_MARK, (*figures.split(), *[MISSING] * len(FIGURES)))
        for name, figures in PUBLISHED.items()
    ]


def read_parts(folder: Path) -> dict[str, list[Sentence]]:
    """The gold sentences of all parts.

    Args:
        folder: what ``selfattn prepare srl`` wrote.

    Raises:
        UserError: if a file is missing or bad.
    """
    return {part: SRL().read_gold(folder / f"{part}.conll") for part in PARTS}


def row_of(
    system: str, folders: Sequence[Path], gold: Mapping[str, list[Sentence]], where: Path
) -> Row:
    """Score the runs of a system: means, with the standard deviation if there are several.

    Args:
        system: its name.
        folders: of its runs, each with files ``PART.props``.
        gold: from :func:`read_parts`.
        where: the folder of the gold files, for messages.

    Raises:
        UserError: if a run has no such file, a file is bad, or runs have different files.
    """
    runs = [_scores(folder, gold, where) for folder in folders]
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


def _scores(
    folder: Path, gold: Mapping[str, list[Sentence]], where: Path
) -> dict[str, tuple[float, ...]]:
    """The four figures by the title of the part, for all parts that the run has."""
    sides: dict[str, tuple[list[Sentence], list[Sentence]]] = {}
    for part, title in PARTS.items():
        path = folder / f"{part}.props"
        if path.is_file():
            found = SRL().read_outputs(path, gold[part], where / f"{part}.conll")
            sides[title] = gold[part], found
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


def to_markdown(rows: Iterable[Row], note: str) -> str:
    """The table in Markdown, with the title of the part in each head.

    Args:
        rows: of the table.
        note: what the figures are, below it.
    """
    heads = [f"{title} {name}" for title in (*PARTS.values(), BOTH) for name in FIGURES]
    lines = [["system", "runs", *heads], ["---", *["---:"] * (len(heads) + 1)]]
    lines += [[row.system, row.runs, *row.cells] for row in rows]
    table = ["| " + " | ".join(c.replace("|", r"\|") for c in line) + " |" for line in lines]
    return "\n".join([*table, "", note]) + "\n"


# What LaTeX reads as something else, and how it writes what these tables hold.
_ESCAPES = {**{c: f"\\{c}" for c in "#$%&_{}"}, "\\": r"\textbackslash{}",
            "^": r"\^{}", "~": r"\~{}", "±": r"$\pm$", "–": "--"}  # fmt: skip
_LATEX = str.maketrans(_ESCAPES)


def to_latex(rows: Iterable[Row], note: str) -> str:
    """The table in LaTeX (package booktabs); a rule divides published rows from others.

    Args:
        rows: of the table.
        note: what the figures are, as a comment.
    """
    titles = [title.translate(_LATEX) for title in (*PARTS.values(), BOTH)]
    width = len(FIGURES)
    lines = [
        f"% {note}",
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
        lines.append(" & ".join(cell.translate(_LATEX) for cell in cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"
