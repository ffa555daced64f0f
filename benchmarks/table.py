"""Rows of a benchmark: columns, CSV files, Markdown, and what became worse than in older ones."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

from selfattn.errors import UserError
from selfattn_experiments.compare.rendering.cells import markdown as as_markdown
from selfattn_experiments.machine import FACTS
from selfattn_tasks.files import check_output, csv_text, write_text


@dataclass
class Row:
    """One method at one length; what is None was not measured."""

    level: str  # layer, operator, context, encoder, fairseq
    mode: str
    device: str
    dtype: str
    threads: int
    padding: str
    backend: str  # asked for, of operators that offer a choice
    embed_dim: int
    heads: int
    layers: int
    length: int  # tokens of a sentence
    batch: int  # sentences
    method: str
    label: str  # of the method, for tables and pictures
    reference: str  # the method that ratios are taken to
    status: str  # ok, out of memory or skipped
    parameters: int | None = None
    # The next six are those of ``timing.Timing``.
    seconds: float | None = None
    reference_seconds: float | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    pairs: int | None = None
    memory_mib: float | None = None  # peak beyond weights and inputs
    reference_memory_mib: float | None = None
    memory_ratio: float | None = None
    facts: dict[str, str] = field(default_factory=dict)  # see ``selfattn_experiments.machine``

    @property
    def key(self) -> tuple[object, ...]:
        """What a row of another run must share to be comparable."""
        return tuple(getattr(self, name) for name in KEY)


# On a shared machine, medians of the same code differ by up to so much between two runs.
NOISE = 0.10
# Small peaks are a few allocations: MiB by which one must grow to count.
LEAST_MIB = 1.0
KEY = (
    "level mode device dtype threads padding backend embed_dim heads layers length batch method "
    "reference"
).split()
COLUMNS = [f.name for f in fields(Row) if f.name != "facts"]
_TYPES = {f.name: str(f.type).split(" ")[0] for f in fields(Row)}


def write(path: Path, rows: Sequence[Row]) -> None:
    """Write rows as CSV.

    Raises:
        UserError: if the file cannot be written.
    """
    check_output("--csv", path)
    cells = [
        [_cell(getattr(row, name)) for name in COLUMNS] + [row.facts.get(name) for name in FACTS]
        for row in rows
    ]
    write_text(path, csv_text([[*COLUMNS, *FACTS], *cells]))


def _cell(value: object) -> object:
    # Two digits more than tables show: rounded twice, their last one could differ.
    return f"{value:.6g}" if isinstance(value, float) else value


def read(path: Path, flag: str = "--compare") -> list[Row]:
    """Rows of a CSV that ``write`` wrote, named by a flag.

    Raises:
        UserError: if it cannot be read, a column is missing, or a value is not of its type.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            names = reader.fieldnames or []
            missing = [name for name in COLUMNS if name not in names]
            if missing:
                raise UserError(
                    f"{flag} is {path}, which has no column {missing[0]!r}; it must be a CSV "
                    f"that this benchmark wrote"
                )
            return [_row(line, f"{flag} is {path}, line {reader.line_num}") for line in reader]
    except FileNotFoundError:
        raise UserError(f"{flag} is {path}, but there is no such file") from None
    except (IsADirectoryError, PermissionError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{flag} is {path}, which cannot be read as a CSV: {error}") from None


def _row(line: dict[str, str], where: str) -> Row:
    values: dict[str, object] = {}
    for name in COLUMNS:
        kind, text = _TYPES[name], line[name]
        if text is None:
            raise UserError(f"{where}: the line ends before column {name!r}")
        try:
            if kind != "str" and text == "":
                values[name] = None
            else:
                values[name] = {"int": int, "float": float, "str": str}[kind](text)
        except ValueError:
            raise UserError(f"{where}: {name} is {text!r}, but must be a number") from None
    facts = {name: line.get(name) or "" for name in FACTS}
    return Row(**values, facts=facts)  # type: ignore[arg-type]


def markdown(rows: Sequence[Row]) -> str:
    """Two tables, time and memory (if measured), methods by lengths; then where they come from.

    All rows are of one run: one level, mode and device.
    """
    lengths = sorted({row.length for row in rows})
    methods = list(dict.fromkeys((row.method, row.label) for row in rows))
    found = {(row.method, row.length): row for row in rows}
    parts = []
    for title, column in (("time", "ratio"), ("peak memory", "memory_ratio")):
        if column != "ratio" and all(getattr(row, column) is None for row in rows):
            continue
        header = [f"{title} / {rows[0].reference}", "parameters", *map(str, lengths)]
        lines = []
        for method, label in methods:
            mine = [found.get((method, length)) for length in lengths]
            sizes = [row.parameters for row in mine if row is not None and row.parameters]
            size = f"{sizes[0]:,}" if sizes else "0"
            cells = [_shown(row, column) for row in mine]
            lines.append([f"{label} (`{method}`)", size, *cells])
        batches = {row.length: row.batch for row in rows}
        lines.append(["*sentences*", "", *(str(batches[n]) for n in lengths)])
        parts.append("\n".join(as_markdown(header, lines, left=1)))
    return "\n\n".join([*parts, origin(rows[0].facts, rows[0].threads, rows[0].dtype)])


def origin(facts: Mapping[str, str], threads: int = 1, dtype: str = "float32") -> str:
    """Machine, versions, commit and command in one line."""
    cores = f"{threads} thread{'s' * (threads > 1)} of {facts.get('cores')}"
    where = facts.get("gpu") or f"{facts.get('cpu')}, {cores}"
    triton = f", triton {facts['triton']}" if facts.get("gpu") and facts.get("triton") else ""
    return (
        f"{where}, {dtype}; Python {facts.get('python')}, torch {facts.get('torch')}{triton}; "
        f"commit {facts.get('commit') or 'unknown'}, {facts.get('date')}: "
        f"`{facts.get('command')}`"
    )


def _shown(row: Row | None, column: str) -> str:
    if row is None:
        return ""
    if row.status != "ok":
        return {"out of memory": "memory", "skipped": "-"}[row.status]
    value: float | None = getattr(row, column)
    return "" if value is None else number(value)


def number(value: float) -> str:
    """Three digits: 0.87, 1.25, 12.3, 383."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def regressions(rows: Sequence[Row], old: Sequence[Row], path: Path) -> list[str]:
    """A sentence for each row that got worse.

    Time counts as worse if the ratio to the reference grew by more than ``NOISE`` and the quartiles
    of both runs do not overlap; memory if its ratio grew by more than ``NOISE`` and its own peak by
    more than ``LEAST_MIB``. A row that was measured before and now is out of memory or skipped is
    worse too. Rows are compared where everything but machine, versions and commit is the same.

    Raises:
        UserError: if the two runs have no row in common.
    """
    before = {row.key: row for row in old}
    both = [(row, before[row.key]) for row in rows if row.key in before]
    if not both:
        raise UserError(
            f"--compare is {path}, but none of its rows has a method, length and setting of this "
            f"run"
        )
    found = []
    for row, earlier in both:
        name = f"{row.method}, {row.level} {row.mode}, length {row.length}"
        if earlier.status == "ok" and row.status != "ok":
            found.append(f"{name}: now {row.status}")
        if _slower(row, earlier):
            found.append(f"{name}: time {_change(row.ratio, earlier.ratio)} of {row.reference}")
        if _larger(row, earlier):
            change = _change(row.memory_ratio, earlier.memory_ratio)
            found.append(f"{name}: memory {change} of {row.reference}")
    return found


def _slower(row: Row, old: Row) -> bool:
    if row.ratio is None or old.ratio is None:
        return False
    apart = (row.ratio_low or row.ratio) > (old.ratio_high or old.ratio)
    return apart and row.ratio > old.ratio * (1 + NOISE)


def _larger(row: Row, old: Row) -> bool:
    if row.memory_ratio is None or old.memory_ratio is None:
        return False
    grown = (row.memory_mib or 0.0) - (old.memory_mib or 0.0)
    return grown > LEAST_MIB and row.memory_ratio > old.memory_ratio * (1 + NOISE)


def _change(new: float | None, old: float | None) -> str:
    return f"{number(old or 0.0)} -> {number(new or 0.0)}"
