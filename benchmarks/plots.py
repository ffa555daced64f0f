"""Ratios against sequence length as pictures."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from selfattn.config import CONFIGS
from selfattn_experiments.report.figures import new_figure, save_pair, tidy
from selfattn_tasks.files import check_output_folder

from .table import Row, number

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
    "fast_disa:paper": ("#9ecae1", "s"),
    "fast_disa:code": ("#9ecae1", "D"),
    "disa": ("#E69F00", "o"),
    "disa:paper": ("#f0c266", "s"),
    "disa:code": ("#E69F00", "D"),
    "disa:textbook": ("#8c5a00", "s"),
}
_NOUNS = {"time": "time", "memory": "peak memory"}
_QUARTILES = ("ratio_low", "ratio_high")
# Fewer lengths than this make a line of two points: dots show them better.
_LINES_FROM = 3
_OURS = tuple(set(CONFIGS) - {"multihead"})
_RIVALS = ("algorithm1", "textbook")
_MORE = (
    "#a6761d", "#e7298a", "#1b9e77", "#7570b3", "#66a61e", "#d95f02",
    "#666666", "#17becf", "#1f3b70", "#8c564b", "#bc80bd",
)  # fmt: skip


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
    check_output_folder("--plots", folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for what, column in (("time", "ratio"), ("memory", "memory_ratio")):
        if not any(getattr(row, column) is not None for row in rows):
            continue
        few = len({row.length for row in rows}) < _LINES_FROM
        count = len({row.method for row in rows})  # the legend has a line for each
        figure = new_figure(9.6, 4.2 if few else max(5.4, 0.2 + 0.27 * count))
        (_dots if few else _lines)(figure, rows, what, column)
        figure.suptitle(_title(rows[0], what), fontsize=10)
        name = f"{rows[0].level}-{rows[0].mode}-{rows[0].device}-{what}"
        written += save_pair(figure, folder / name, dpi=120)
    return written


def _lines(figure: Any, rows: Sequence[Row], what: str, column: str) -> None:
    """Ratio over length, a line for each method."""
    axes = figure.subplots()
    lengths = sorted({row.length for row in rows})
    lines = []
    methods = {row.method: row.label for row in rows}
    styles = _styles(methods)
    for method, label in methods.items():
        mine = sorted((row for row in rows if row.method == method), key=lambda row: row.length)
        points = [(r.length, getattr(r, column)) for r in mine if getattr(r, column) is not None]
        if not points:
            continue
        colour, marker = styles[method]
        ours = method.startswith(_OURS) and not method.endswith(_RIVALS)
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
    tidy(axes)
    axes.set_xlabel("sequence length (tokens)")
    axes.set_ylabel(_axis(rows, what))


def _dots(figure: Any, rows: Sequence[Row], what: str, column: str) -> None:
    """A panel for each length, a dot with its quartiles for each method."""
    lengths = sorted({row.length for row in rows})
    methods = {row.method: row.label for row in rows}
    styles = _styles(methods)
    panels = figure.subplots(1, len(lengths), sharex=True, sharey=True, squeeze=False)[0]
    for axes, length in zip(panels, lengths, strict=True):
        for place, method in enumerate(methods):
            mine = [row for row in rows if (row.method, row.length) == (method, length)]
            value = getattr(mine[0], column) if mine else None
            if value is None:
                why = mine[0].status if mine and mine[0].status != "ok" else "not measured"
                axes.annotate(why, (1.0, place), fontsize=9, va="center")
                continue
            low, high = (mine[0].ratio_low, mine[0].ratio_high) if what == "time" else (value,) * 2
            colour, marker = styles[method]
            axes.plot([low, high], [place, place], color=colour, linewidth=5, alpha=0.35)
            axes.plot([value], [place], color=colour, marker=marker, markersize=6)
            axes.annotate(
                number(value), (max(value, high or value), place),
                xytext=(6, 0), textcoords="offset points", va="center", fontsize=9,
            )  # fmt: skip
        axes.axvline(1.0, color="#000000", linewidth=0.8)
        axes.margins(x=0.2, y=0.08)
        tidy(axes, grid="x")
        axes.set_title(f"{length:,} tokens", fontsize=10)
        axes.set_xlabel(_axis(rows, what), fontsize=9)
    panels[0].set_yticks(range(len(methods)), list(methods.values()))
    panels[0].invert_yaxis()


def _styles(methods: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Colour and marker of each method; those without their own take the others in turn."""
    others = [method for method in methods if method not in _STYLES]
    more = {method: (_MORE[i % len(_MORE)], "P") for i, method in enumerate(others)}
    return {**_STYLES, **more}


def _axis(rows: Sequence[Row], what: str) -> str:
    name = rows[0].reference
    label = next((row.label for row in rows if row.method == name), name)
    return f"{_NOUNS[what]}, ratio to {label}"


def _title(row: Row, what: str) -> str:
    where = row.facts.get("gpu") or f"CPU, {row.threads} thread{'s' * (row.threads > 1)}"
    sizes = f"{row.dtype}, {row.embed_dim} features, {row.heads} heads"
    return f"{row.level}, {row.mode}: {_NOUNS[what]} ({where}, {sizes})"


def _end(rows: Sequence[Row], last: tuple[int, float]) -> str:
    """The ratio at a line's right end, and why the line ends there if it does."""
    text = f": {number(last[1])}"
    after = [row for row in rows if row.length > last[0]]
    if not after:
        return text
    why = after[0].status if after[0].status != "ok" else "not measured"
    return f"{text} at {last[0]:,}, then {why}"
