"""Where the parts of a picture of attention go: everything in inches, from the top left corner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from selfattn_tasks.text import CONTROL

from .figures import COLOURS, new_figure

# A cell is this wide for short sentences and for long ones, in inches; a heatmap at most _WIDEST.
_ROOMY, _TIGHT, _SQUARE, _WIDEST = 0.26, 0.135, 3.2, 10.0
# Labels closer than this would touch.
_LABEL_PITCH = 0.11
_MARGIN = 0.25
_LONGEST_LABEL = 18
MARKED = COLOURS[1]
INK, PALE = "#333333", "#777777"


@dataclass(frozen=True)
class Sheet:
    """Sizes that follow from the number and the length of the tokens, in inches and points."""

    tokens: Sequence[str]  # labels of the sentence's tokens
    marked: int | None = None  # position of a token to stand out, or None
    blocks: Sequence[int] | None = None  # number of each token's block, or None
    selected: Sequence[bool] | None = None  # whether each token may attend, or None for all

    @property
    def cell(self) -> float:
        """Width of a token's cell, in inches."""
        count = len(self.tokens)
        return min(_ROOMY, max(_TIGHT, _SQUARE / count), _WIDEST / count)

    @property
    def side(self) -> float:
        """Width of all cells together, in inches."""
        return self.cell * len(self.tokens)

    @property
    def font(self) -> float:
        """Size of the labels in points."""
        return min(9.0, 0.75 * 72 * max(self.cell, _LABEL_PITCH))

    @property
    def labels(self) -> list[str]:
        """Tokens as they are written, cut where they are very long.

        SentencePiece's mark of a word's begin is a heavy bar that outshines the letters, and SVG
        must not hold control characters.
        """
        cut = _LONGEST_LABEL
        shown = (CONTROL.sub("\ufffd", token.replace("\u2581", "_")) for token in self.tokens)
        return [t if len(t) <= cut else f"{t[: cut - 1]}…" for t in shown]

    @property
    def label_length(self) -> float:
        """Room that the longest label takes."""
        return max(map(len, self.labels)) * self.font * 0.62 / 72 + 0.12

    @property
    def margin(self) -> float:
        """Room left of a panel: for a token's label, or a head's."""
        return max(self.label_length, 0.7) + 0.25

    @property
    def shown(self) -> list[int]:
        """Positions that get a label: all, or every second and so on where they would touch."""
        step = max(1, -(-_LABEL_PITCH // self.cell))
        return list(range(0, len(self.tokens), int(step)))

    @property
    def borders(self) -> list[float]:
        """Places between two tokens of different blocks."""
        blocks = self.blocks or ()
        return [i + 0.5 for i, (a, b) in enumerate(pairwise(blocks)) if a != b]

    def label(self, axes: Any, side: str) -> None:
        """Write the tokens along one side of a panel: ``"x"`` below it or ``"y"`` left of it."""
        words = [self.labels[i] for i in self.shown]
        axis = axes.xaxis if side == "x" else axes.yaxis
        # A token such as $x$ is a token, not a formula.
        axis.set_ticks(self.shown, words, fontsize=self.font, parse_math=False)
        if side == "x":
            axes.tick_params("x", rotation=90)
        axes.tick_params(side, length=2, width=0.5, color=PALE, pad=2)
        for place, tick in zip(self.shown, axis.get_ticklabels(), strict=True):
            if place == self.marked:
                tick.set(color=MARKED, fontweight="bold")


@dataclass(frozen=True)
class Section:
    """One part of a picture."""

    heading: str  # in bold, above the part; empty for none
    inner: float  # width of the part below its heading
    height: float  # of the part, heading included
    paint: Callable[[Place], None]  # draws the part on a place of this size

    @property
    def width(self) -> float:
        """Room that heading and part take."""
        return max(self.inner, text_width(self.heading))

    def draw(self, place: Place) -> None:
        """Draw the heading and, below it, the part."""
        place.write(0, 0, self.heading, fontweight="bold")
        self.paint(place)


class Place:
    """The room of one section in a figure, by its upper left corner."""

    def __init__(self, figure: Any, left: float, top: float) -> None:
        self.figure, self.left, self.top = figure, left, top
        self.size = figure.get_size_inches()

    def axes(self, x: float, y: float, width: float, height: float) -> Any:
        """A panel; x and y are its upper left corner within the section."""
        across, down = self.size
        bottom = down - self.top - y - height
        panel = self.figure.add_axes(
            [(self.left + x) / across, bottom / down, width / across, height / down]
        )
        panel.spines[:].set(color=PALE, linewidth=0.6)
        panel.tick_params(length=0)
        return panel

    def write(self, x: float, y: float, text: str, **style: Any) -> None:
        """Text whose upper left corner is at x and y."""
        across, down = self.size
        place = (self.left + x) / across, (down - self.top - y) / down
        style = {"fontsize": 9, "color": INK, "ha": "left", "va": "top", **style}
        self.figure.text(*place, text, parse_math=False, **style)


def beside(sections: Sequence[Section], limit: float) -> list[Section]:
    """The sections in one row if they fit into ``limit`` inches, else as they are."""
    if len(sections) < 2 or sum(section.width for section in sections) > limit:
        return list(sections)

    def paint(place: Place) -> None:
        left = place.left
        for section in sections:
            section.draw(Place(place.figure, left, place.top))
            left += section.width

    width = sum(section.width for section in sections)
    return [Section("", width, max(section.height for section in sections), paint)]


def text_width(text: str, size: float = 9.0) -> float:
    """The rough width of a bold text, in inches."""
    return len(text) * size * 0.7 / 72


def stack(sections: Sequence[Section]) -> Any:
    """A figure with the sections below each other.

    Raises:
        UserError: if matplotlib is not installed.
    """
    width = max(section.width for section in sections) + 2 * _MARGIN
    height = sum(section.height for section in sections) + 2 * _MARGIN
    figure = new_figure(width, height)
    figure.set_layout_engine("none")  # every place is known
    top = _MARGIN
    for section in sections:
        section.draw(Place(figure, _MARGIN, top))
        top += section.height
    return figure
