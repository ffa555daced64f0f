"""Numbers as they are written in tables and sentences; rows as Markdown and LaTeX have them."""

from collections.abc import Callable, Iterable, Sequence

from ..run_level import Interval

_LATEX = str.maketrans({
    **{character: f"\\{character}" for character in "#$%&_{}"},
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "|": r"\textbar{}", "<": r"\textless{}", ">": r"\textgreater{}", "±": r"$\pm$", "–": "--",
})  # fmt: skip
_LEVELS = (0.005, 0.01, 0.02, 0.025, 0.05)


def points(value: float, digits: int = 2) -> str:
    """A score or a size: ``37.70``, and ``0.5`` for a round number below 10."""
    short = value < 10 and value == round(value, digits - 1)
    return f"{value:g}" if short else f"{value:.{digits}f}"


def score(value: float | None, digits: int = 2) -> str:
    """A score, ``-`` for None."""
    return "-" if value is None else signed(value, digits).removeprefix("+")


def signed(value: float, digits: int = 2) -> str:
    """A difference: ``+0.31``; a difference of nothing has no sign."""
    text = f"{value:+.{digits}f}"
    return text if float(text) else text[1:]


def probability(p: float | None) -> str:
    """A p-value: ``0.25``, ``0.034``, ``0.0007``, ``<0.0001``, ``1``."""
    if p is None:
        return "-"
    if p < 1e-4:
        return "<0.0001"
    if p >= 0.995:
        return "1"
    digits = 2 if p >= 0.1 else 3 if p >= 0.001 else 4
    digits += f"{p:.3f}" == "0.050"
    # Never rounded up to a usual level that it is below; 0.100 and 0.0010 are below theirs.
    while digits < 17 and p < float(f"{p:.{digits}f}") in _LEVELS:
        digits += 1
    return f"{p:.{digits}f}"


def equals(p: float) -> str:
    """A p-value in a sentence: ``p = 0.034``, ``p < 0.0001``."""
    text = probability(p)
    return f"p {text[0]} {text[1:]}" if text.startswith("<") else f"p = {text}"


def span(
    interval: Interval | None, digits: int = 2, form: Callable[[float, int], str] = signed
) -> str:
    """An interval, each limit in this form: ``+0.61 to +1.85``."""
    return "-" if interval is None else " to ".join(form(limit, digits) for limit in interval)


def share(value: float | None) -> str:
    """A share of 1 in percent."""
    return "-" if value is None else f"{100 * value:.0f} %"


def asked(value: float) -> str:
    """A margin that was asked for, in full: rounded, it would be another one."""
    return f"{value:.15g}"


def asked_share(value: float) -> str:
    """A level or a power that was asked for: ``5 %``, ``2.5 %``."""
    return f"{asked(100 * value)} %"


def latex(text: str) -> str:
    """A text as LaTeX takes it."""
    return text.translate(_LATEX)


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]], left: int) -> list[str]:
    """The lines of a Markdown table.

    Args:
        header: names of the columns.
        rows: as many cells each.
        left: how many columns at the left are words; the others are numbers.
    """
    rule = ["---"] * left + ["---:"] * (len(header) - left)
    return [
        "| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |"
        for row in (header, rule, *rows)
    ]
