"""Ratios against sequence length as pictures."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from selfattn.benchmark.table import Row, number
from selfattn.errors import UserError

FORMATS = (".png", ".svg")
# One look for each method in every picture: colours by family, markers within it.
_STYLES = {
    "multihead": ("#000000", "o"),
    "sdpa": ("#000000", "o"),
    "multihead:weights": ("#666666", "s"),
    "multihead:directed": ("#999999", "D"),
    "sdpa:directed": ("#999999", "D"),
    "multihead:layer": ("#bbbbbb", "v"),
    "mtsa": ("#0072B2", "o"),
    "mtsa:srl": ("#0072B2", "o"),
    "mtsa:paper": ("#56B4E9", "s"),
    "mtsa:nmt": ("#00408b", "D"),
    "mtsa:undirected": ("#00408b", "D"),
    "mtsa:sentence": ("#5e9fa8", "v"),
    "mtsa:algorithm1": ("#D55E00", "X"),
    "bi-lstm": ("#009E73", "o"),
    "bi-gru": ("#5fbf5f", "s"),
    "multi-cnn": ("#CC79A7", "o"),
    "hrchy-cnn": ("#7b4fa3", "s"),
    "disa": ("#E69F00", "o"),
    "disa:textbook": ("#8c5a00", "s"),
}
_RIVALS = ("algorithm1", "textbook")
_MORE = ("#a6761d", "#e7298a", "#1b9e77", "#7570b3", "#66a61e", "#d95f02")


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw time and peak memory over length, PNG and SVG.

    Args:
        rows: of one run: one level, mode and device.
        folder: where to write; made if it is missing.

    Returns:
        The files, ``LEVEL-MODE-DEVICE-time.png`` and so on. A picture without a point is left out.

    Raises:
        UserError: if matplotlib is not installed, or the folder is a file.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise UserError(
            "matplotlib is not installed: install it with `pip install matplotlib`"
        ) from None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise UserError(f"--plots is {folder}, but must be a folder") from None
    written = []
    for what, column in (("time", "ratio"), ("memory", "memory_ratio")):
        if not any(getattr(row, column) is not None for row in rows):
            continue
        figure = Figure(figsize=(9.6, 5.4), layout="constrained")
        _panel(figure.subplots(), rows, what, column)
        name = f"{rows[0].level}-{rows[0].mode}-{rows[0].device}-{what}"
        for ending in FORMATS:
            path = folder / (name + ending)
            # Fixed ids and no date: the same numbers give the same file.
            with matplotlib.rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
                _save(figure, path)
            written.append(path)
    return written


def _save(figure: Any, path: Path) -> None:
    partial = path.with_name(f".{path.stem}.partial-{os.getpid()}{path.suffix}")
    try:
        figure.savefig(partial, dpi=120, metadata={"Date": None} if path.suffix == ".svg" else None)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _panel(axes: Any, rows: Sequence[Row], what: str, column: str) -> None:
    first = rows[0]
    lengths = sorted({row.length for row in rows})
    lines = []
    methods = list(dict.fromkeys((row.method, row.label) for row in rows))
    for index, (method, label) in enumerate(methods):
        mine = sorted((row for row in rows if row.method == method), key=lambda row: row.length)
        points = [(r.length, getattr(r, column)) for r in mine if getattr(r, column) is not None]
        if not points:
            continue
        colour, marker = _STYLES.get(method, (_MORE[index % len(_MORE)], "P"))
        ours = method.startswith(("mtsa", "disa")) and not method.endswith(_RIVALS)
        line = axes.plot(
            *zip(*points, strict=True), color=colour, marker=marker, markersize=4.5,
            linewidth=2.2 if ours else 1.3, linestyle="-" if ours else "--",
        )[0]  # fmt: skip
        if what == "time":
            low, high = ([getattr(r, end) for r in mine if r.ratio] for end in _QUARTILES)
            axes.fill_between([p[0] for p in points], low, high, color=colour, alpha=0.15, lw=0)
        lines.append((points[-1], line, f"{label}{_end(mine, points[-1])}"))
    # The legend in the order of the lines' right ends.
    lines.sort(key=lambda entry: -entry[0][1])
    axes.legend(
        [line for _, line, _ in lines], [text for _, _, text in lines],
        loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=9,
    )  # fmt: skip
    axes.axhline(1.0, color="#000000", linewidth=0.8)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.minorticks_off()
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("sequence length (tokens)")
    noun = {"time": "time", "memory": "peak memory"}[what]
    reference = next((row.label for row in rows if row.method == first.reference), first.reference)
    axes.set_ylabel(f"{noun}, ratio to {reference}")
    where = first.facts.get("gpu") or f"CPU, {first.threads} thread{'s' * (first.threads > 1)}"
    axes.set_title(
        f"{first.level}, {first.mode}: {noun} ({where}, {first.dtype}, "
        f"{first.embed_dim} features, {first.heads} heads)",
        fontsize=10,
    )


_QUARTILES = ("ratio_low", "ratio_high")


def _end(rows: Sequence[Row], last: tuple[int, float]) -> str:
    """The ratio at a line's right end, and why the line ends there if it does."""
    text = f": {number(last[1])}"
    after = [row for row in rows if row.length > last[0]]
    if not after:
        return text
    why = after[0].status if after[0].status != "ok" else "not measured"
    return f"{text} at {last[0]:,}, then {why}"
