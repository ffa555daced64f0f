"""A picture of how often each test is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...report.figures import colours, new_figure, save, tidy
from ..simulation import BOOTSTRAP, COIN_PER_RUN, EQUIVALENCE, LEVEL, RANDOMISATION, Rate

_OVER_SENTENCES = (BOOTSTRAP, RANDOMISATION, COIN_PER_RUN)


def draw_rates(rates: Sequence[Rate], path: Path) -> None:
    """A row for each rate: the share of pairs that are judged wrongly, with its 95 % interval.

    Args:
        rates: those of one world in a row.
        path: ``.png``, ``.svg`` or what else matplotlib writes.

    Raises:
        UserError: if matplotlib is not installed.
    """
    figure = new_figure(8.0, 1.2 + 0.26 * (len(rates) + 1.3 * len({r.world for r in rates})))
    axes = figure.subplots()
    blue, orange, green = colours(3)
    ticks: list[float] = []
    place, world = 0.0, None
    for rate in rates:
        if rate.world != world:
            world = rate.world
            place += 1.3
            axes.annotate(
                f"{world.what}, {world.runs[0]} against {world.runs[1]}", (0, place - 0.1),
                xycoords=("axes fraction", "data"), xytext=(4, 0), textcoords="offset points",
                fontsize=9, fontweight="bold", va="center",
            )  # fmt: skip
        place += 1
        ticks.append(place)
        colour = orange if rate.test in _OVER_SENTENCES else blue
        colour = green if rate.test == EQUIVALENCE else colour
        axes.plot([100 * limit for limit in rate.interval], [place] * 2, color=colour, linewidth=2)
        axes.plot([100 * rate.share], [place], "D", color=colour, markersize=5, clip_on=False)
    axes.axvline(100 * LEVEL, color="#000000", linewidth=0.8, zorder=0)
    axes.set_yticks(ticks, [rate.test for rate in rates], fontsize=9)
    axes.set_ylim(place + 0.7, 0.4)
    axes.set_xlim(left=0)
    axes.set_xlabel(f"equally good systems that are called different at {LEVEL}, %")
    for name, colour in (
        ("tests over runs", blue), ("tests over sentences", orange),
        ("unequal ones called equivalent", green),
    ):  # fmt: skip
        axes.plot([], [], "D-", color=colour, markersize=5, linewidth=2, label=name)
    axes.legend(frameon=False, fontsize=9)
    tidy(axes, grid="x")
    save(figure, path)
