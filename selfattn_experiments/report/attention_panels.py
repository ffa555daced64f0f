"""The parts of a picture of attention: heatmaps of pairs, strips over tokens, selections."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from .attention_layout import INK, PALE, Place, Section, Sheet, beside, text_width

PARTS = ("token2token", "source2token", "gate", "selection")
_WIDEST_ROW = 25.0
_TITLE, _GAP, _BAR, _BAR_ROOM = 0.26, 0.25, 0.14, 0.95
_HIDDEN, _HATCH = "#e9e9e9", "#c4c4c4"
_BLUE = ("#ffffff", "#9ecae8", "#0072B2", "#00243d")
_ROW = 0.2
_SENSE = {
    "forward": "each token attends to earlier tokens",
    "backward": "each token attends to later tokens",
}
# Queries that see fewer keys are at the edge of a mask.
_EDGE = 10


def title_section(title: str, legend: str) -> Section:
    """The first lines of a picture."""

    def paint(place: Place) -> None:
        place.write(0, 0, title, fontsize=11)
        place.write(0, 0.22, legend, fontsize=8, color=PALE)

    return Section("", max(text_width(title, 11), text_width(legend, 8)), 0.55, paint)


def pairs_section(
    sheet: Sheet, weights: np.ndarray, heads: Sequence[int], masks: Sequence[str]
) -> list[Section]:
    """Heatmaps of token2token weights, a section for each direction.

    Args:
        sheet: the sizes.
        weights: ``(H, T, T)``, [query, key]; exactly 0 where a query does not see a key.
        heads: number of each head, from 1.
        masks: name of each head's mask.
    """
    scale = _darkest(weights)  # of all heads, so that panels can be compared
    sections = []
    for direction, group in groupby(range(len(heads)), lambda i: masks[i].partition(",")[0]):
        members = list(group)
        titles = [
            f"head {heads[i]}" + (f":{masks[i].partition(',')[2]}" if "," in masks[i] else "")
            for i in members
        ]
        sections.append(_grid(sheet, weights[members], titles, direction, scale))
    return beside(sections, _WIDEST_ROW)


def _grid(
    sheet: Sheet,
    weights: np.ndarray,
    titles: Sequence[str],
    direction: str,
    scale: tuple[float, bool],
) -> Section:
    """The heads of one direction; ``scale`` as from ``_darkest``."""
    label, side = sheet.margin, sheet.side
    # A row is hard to follow across several panels: then each has its own labels.
    every = len(sheet.tokens) > 20
    step = side + _GAP + (label if every else 0)
    fit = max(1, int((_WIDEST_ROW - label - _BAR_ROOM) // step))
    columns = -(-len(titles) // -(-len(titles) // fit))
    rows = -(-len(titles) // columns)
    pitch = _TITLE + side + sheet.label_length + 0.25
    top, clipped = scale
    word = direction.split(" ")[0]
    heading = f"token2token, {direction}" + (f": {_SENSE[word]}" if word in _SENSE else "")

    def paint(place: Place) -> None:
        for i, (title, values) in enumerate(zip(titles, weights, strict=True)):
            x, y = label + (i % columns) * step, 0.15 + i // columns * pitch
            panel = place.axes(x, y + _TITLE, side, side)
            image = _heat(panel, np.ma.masked_equal(values, 0.0), top)
            panel.set_title(title, fontsize=9, color=INK, pad=4)
            _lines(panel, sheet, both=True)
            _nothing_seen(panel, sheet, values)
            sheet.label(panel, "x")
            panel.set_xlabel("key (attended to)", fontsize=8, color=PALE, labelpad=3)
            if every or not i % columns:
                sheet.label(panel, "y")
                panel.set_ylabel("query (attends)", fontsize=8, color=PALE, labelpad=3)
            else:
                panel.set_yticks([])
        across = label + (columns - 1) * step + side + 0.15
        unit = "weight (arrow: this or more)" if clipped else "weight"
        _bar(place, image, across, 0.15 + _TITLE, min(max(side, 0.8), 3.0), unit, clipped)

    width = label + columns * step + _BAR_ROOM
    return Section(heading, width, 0.15 + rows * pitch + 0.2, paint)


def _darkest(weights: np.ndarray) -> tuple[float, bool]:
    """Value of the darkest colour, and whether some weights lie above it.

    The few keys at the edge of a directed mask have weights near 1 by necessity; in a long sentence
    they would leave all others white.
    """
    edge = (weights > 0).sum(-1, keepdims=True) < _EDGE
    top = float(np.where(edge, 0, weights).max())
    if weights.shape[-1] < 4 * _EDGE or not top:
        top = float(weights.max()) or 1.0
    return top, float(weights.max()) > 1.05 * top


def strip_section(
    sheet: Sheet, title: str, unit: str, values: np.ndarray, rows: Sequence[str], top: float | None
) -> Section:
    """A row of coloured cells for each head, over the tokens.

    Args:
        sheet: the sizes.
        title: what is shown.
        unit: label of the colour bar.
        values: ``(H, T)``.
        rows: name of each row.
        top: value of the darkest colour; None takes the largest of the values.
    """
    label = sheet.margin
    high = _ROW * len(rows)

    def paint(place: Place) -> None:
        panel = place.axes(label, _TITLE, sheet.side, high)
        image = _heat(panel, values, top or float(values.max()) or 1.0, aspect="auto")
        panel.set_yticks(range(len(rows)), rows, fontsize=8)
        _lines(panel, sheet, both=False)
        sheet.label(panel, "x")
        _bar(place, image, label + sheet.side + 0.15, _TITLE, max(high, 1.0), unit)

    height = _TITLE + max(high + sheet.label_length, 1.0) + 0.3
    return Section(title, label + sheet.side + _BAR_ROOM, height, paint)


def selection_section(
    sheet: Sheet, chosen: Sequence[tuple[str, np.ndarray, np.ndarray | None]]
) -> Section:
    """Selected tokens as filled markers over bars of their probability.

    Args:
        sheet: the sizes.
        chosen: name, bool ``(T,)`` and probability ``(T,)`` or None, for each kind of selection.
    """
    heights = [_ROW if probability is None else 0.75 for _, _, probability in chosen]

    def paint(place: Place) -> None:
        y = _TITLE
        for (name, selected, probability), height in zip(chosen, heights, strict=True):
            panel = place.axes(sheet.margin, y, sheet.side, height)
            y += height + 0.12
            panel.set_ylabel(name, fontsize=8, rotation=0, ha="right", va="center", labelpad=5)
            _markers(panel, sheet, selected, 1.22 if probability is not None else 0.5)
            if probability is None:
                panel.set(ylim=(0, 1), yticks=[])
                panel.spines[:].set_visible(False)
            else:
                panel.bar(range(len(probability)), probability, width=0.7, color=_BLUE[1])
                panel.axhline(0.5, color=PALE, linewidth=0.6, linestyle=":")
                panel.set_ylim(0, 1.45)
                panel.set_yticks([0, 0.5, 1], ["0", "0.5", "1"], fontsize=7)
                panel.spines[["top", "right"]].set_visible(False)
            panel.set_xticks([])
        sheet.label(panel, "x")

    heading = "selected tokens (filled): heads attend, dependents are attended to"
    if any(probability is not None for _, _, probability in chosen):
        heading += "; bars: probability"
    height = _TITLE + sum(heights) + 0.12 * len(heights) + sheet.label_length + 0.3
    return Section(heading, sheet.margin + sheet.side + _BAR_ROOM, height, paint)


def _markers(panel: Any, sheet: Sheet, selected: np.ndarray, height: float) -> None:
    """A filled circle for each selected token, a hollow one for each other."""
    size = (min(sheet.cell, 0.2) * 72 * 0.6) ** 2
    for flag, face in ((True, _BLUE[2]), (False, "white")):
        where = np.flatnonzero(selected == flag)
        panel.scatter(
            where, np.full(len(where), height), s=size, facecolor=face, edgecolor=_BLUE[2],
            linewidth=0.8, clip_on=False,
        )  # fmt: skip
    panel.set_xlim(-0.5, len(selected) - 0.5)
    _lines(panel, sheet, both=False)


def _heat(panel: Any, values: np.ndarray, top: float, aspect: str = "equal") -> Any:
    """Colours from 0, white, to ``top``; where a value is masked the hatched ground shows."""
    from matplotlib.colors import LinearSegmentedColormap

    steps = list(zip((0, 0.25, 0.62, 1), _BLUE, strict=True))
    colours = LinearSegmentedColormap.from_list("weights", steps).with_extremes(bad=(0, 0, 0, 0))
    panel.patch.set(
        facecolor=_HIDDEN, edgecolor=_HATCH, hatch="//////", linewidth=0, hatch_linewidth=0.5
    )
    return panel.imshow(
        values, cmap=colours, vmin=0, vmax=top, aspect=aspect, interpolation="nearest"
    )


def _bar(
    place: Place, image: Any, x: float, y: float, height: float, unit: str, clipped: bool = False
) -> None:
    """A bar of the colours, with an arrow at its end where there are larger values.

    ``unit`` is written along the bar; if it is longer than the bar, it runs into what is above.
    """
    ends = "max" if clipped else "neither"
    bar = place.figure.colorbar(image, cax=place.axes(x, y, _BAR, height), extend=ends)
    bar.set_label(unit, fontsize=8, color=INK)
    bar.ax.tick_params(labelsize=7, length=2)
    bar.outline.set(linewidth=0.6, edgecolor=PALE)


def _lines(panel: Any, sheet: Sheet, both: bool) -> None:
    """Draw the borders between blocks of tokens."""
    for place in sheet.borders:
        panel.axvline(place, color=INK, linewidth=0.9)
        if both:
            panel.axhline(place, color=INK, linewidth=0.9)


def _nothing_seen(panel: Any, sheet: Sheet, values: np.ndarray) -> None:
    """Say which queries see no key, and why."""
    for row in np.flatnonzero(~values.any(-1)):
        why = "sees nothing" if sheet.selected is None or sheet.selected[row] else "not selected"
        panel.text(
            (values.shape[1] - 1) / 2, row, why, fontsize=min(sheet.font, 8) - 1, color=INK,
            style="italic", ha="center", va="center_baseline",
        )  # fmt: skip
