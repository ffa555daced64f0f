"""What all pictures of the project share: matplotlib, colours, files."""

import io
from pathlib import Path
from typing import Any

from selfattn.errors import UserError, needed
from selfattn_tasks.files import check_output, writing

# Okabe and Ito's palette: told apart by colour-blind readers and in print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")

# Endings of the pictures that are written in pairs: one to look at, one for print.
FORMATS = (".png", ".svg")
PICTURES = (*FORMATS, ".pdf")  # where a flag names one picture


def new_figure(width: float, height: float) -> Any:
    """An empty figure of this size in inches.

    Raises:
        UserError: if matplotlib is not installed.
    """
    return needed("matplotlib.figure").Figure(figsize=(width, height), layout="constrained")


def tidy(axes: Any, grid: str = "both") -> None:
    """Give a panel the project's look: a light grid along ``grid``, no box."""
    axes.grid(color="#dddddd", linewidth=0.6, axis=grid)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def over_updates(axes: Any) -> None:
    """An axis of updates below a tidy frame."""
    axes.set_xlabel("updates")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    tidy(axes)


def colours(count: int) -> list[str]:
    """This many colours; they repeat after the seventh."""
    return [COLOURS[i % len(COLOURS)] for i in range(count)]


def lines(count: int) -> list[dict[str, str]]:
    """This many styles of lines and their markers, 21 of them different."""
    forms = [{"linestyle": "-", "marker": "o"}, {"linestyle": "--", "marker": "s"},
             {"linestyle": ":", "marker": "D"}]  # fmt: skip
    return [
        {"color": colour, **forms[i // len(COLOURS) % len(forms)]}
        for i, colour in enumerate(colours(count))
    ]


def legend(panel: Any, **where: Any) -> None:
    """Names as they are: matplotlib alone leaves out _a and takes $ for mathematics."""
    named = [line for line in panel.lines if not line.get_label().startswith("_child")]
    shown = panel.legend(named, [line.get_label() for line in named], frameon=False, **where)
    for text in shown.get_texts():
        text.set_parse_math(False)


def check_picture(flag: str, path: Path) -> None:
    """Refuse a picture's path with an unknown ending, or one that cannot be written.

    Raises:
        UserError: naming the flag.
    """
    if path.suffix.lower() not in PICTURES:
        raise UserError(f"{flag} is {path}, but must end in {', '.join(PICTURES)}")
    check_output(flag, path)


def encoded(figure: Any) -> bytes:
    """A picture as PNG, for a page."""
    file = io.BytesIO()
    figure.savefig(file, dpi=120)
    return file.getvalue()


def save(figure: Any, path: Path, dpi: int = 150) -> None:
    """Write a picture; the same numbers give the same file."""
    import matplotlib

    form = path.suffix[1:].lower()
    # No date in SVG and PDF files, and fixed ids in SVG.
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with (
        writing(path) as file,
        matplotlib.rc_context({"svg.hashsalt": path.stem, "svg.fonttype": "none"}),
    ):
        figure.savefig(file, format=form, dpi=dpi, metadata=undated.get(form))


def save_pair(figure: Any, prefix: Path, dpi: int = 150) -> list[Path]:
    """Write a picture to look at and one for print; return their paths, PREFIX.png and .svg."""
    paths = [prefix.with_name(prefix.name + ending) for ending in FORMATS]
    for path in paths:
        save(figure, path, dpi)
    return paths
