"""A report for a terminal: the answer first."""

from __future__ import annotations

import textwrap

from tabulate import tabulate

from ..results import Report
from .sections import Table, by_title, tables

# A longer name is cut where it makes a table wider than the terminal; never to less than this.
_SHORTEST_NAME = 10


def render(report: Report, width: int) -> str:
    """The whole report as text.

    Args:
        report: what was found.
        width: columns of the terminal; words are wrapped at it, tables are kept whole.
    """
    parts = [_answer(report, width)]
    if report.warnings:
        parts.append(_warnings(report, width))
    parts += [_table(table, width) for table in tables(report)]
    parts.append(_sources(report, width))
    return "\n\n".join(parts) + "\n"


def _answer(report: Report, width: int) -> str:
    parts, widest = [], max(5, *map(len, report.settings.metrics)) + 1
    for title, comparisons in by_title(report).items():
        lines = textwrap.wrap(title, width)
        for c in comparisons:
            head = f"  {c.metric:<{widest}}{c.verdict.upper() if c.primary else c.verdict:<14}"
            lines += _wrap(c.words, width, head, " " * len(head))
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _warnings(report: Report, width: int) -> str:
    return "\n".join(
        ["Warnings", *(line for w in report.warnings for line in _wrap(w, width, "  ! ", "    "))]
    )


def _table(table: Table, width: int) -> str:
    found = _aligned(table, table.rows)
    excess = max(map(len, found)) - width
    if excess > 0:
        names = [cell for row in (table.header, *table.rows) for cell in row[: table.left]]
        longest = max(_SHORTEST_NAME, max(map(len, names)) - excess)
        cut = [
            [_cut(c, longest) if i < table.left else c for i, c in enumerate(row)]
            for row in table.rows
        ]
        found = _aligned(table, cut)
    lines = [table.title, *found]
    for note in table.note.splitlines():
        lines += _wrap(note, width, "  ", "    ")
    return "\n".join(lines)


def _aligned(table: Table, rows: list[list[str]]) -> list[str]:
    sides = ["left"] * table.left + ["right"] * (len(table.header) - table.left)
    # As a row, because tabulate makes the column of a header wider than the header.
    lines = [table.header, *rows]
    text = tabulate(lines, tablefmt="plain", colalign=sides, disable_numparse=True)
    return [f"  {line.rstrip()}" for line in text.splitlines()]


def _cut(name: str, longest: int) -> str:
    """A name that fits; begin and end are what tells it from others, so the middle goes."""
    if len(name) <= longest:
        return name
    half = (longest - 1) // 2
    return f"{name[:half]}…{name[half + 1 - longest :]}"


def _sources(report: Report, width: int) -> str:
    lines = ["Signatures"]
    for test_set, signatures in report.signatures.items():
        for metric, signature in signatures.items():
            where = f"{test_set} " if len(report.signatures) > 1 else ""
            lines += _wrap(signature, width, f"  {where}{metric}: ", "    ")
    for corpus in report.test_sets:
        text = f"{corpus.path} ({corpus.sentences:,} sentences, SHA-256 {corpus.sha256[:12]})"
        lines += _wrap(text, width, f"  {corpus.name}: ", "    ")
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    lines += _wrap(versions, width, "  versions: ", "    ")
    return "\n".join(lines)


def _wrap(text: str, width: int, first: str, rest: str) -> list[str]:
    # Paths and signatures are copied from here: never broken at a hyphen.
    return textwrap.wrap(
        text, max(width, 40), initial_indent=first, subsequent_indent=rest,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
