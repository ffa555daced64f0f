"""Pictures of a comparison: runs, differences, learning curves and leads; rates of errors."""

import logging
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from selfattn.errors import UserError
from selfattn_tasks.files import check_output_folder
from selfattn_tasks.registry import TASKS

from ...report import Curves, read_curves
from ...report.figures import colours, new_figure, save, save_pair, tidy
from ..results import Report
from ..run_level import Interval
from ..simulation import BOOTSTRAP, COIN_PER_RUN, EQUIVALENCE, LEVEL, RANDOMISATION, Rate
from . import cells
from .learning import draw_leads, draw_learning

logger = logging.getLogger(__name__)

_STRIP = 0.16  # half the width over which the runs of a system are spread
_OVER_SENTENCES = (BOOTSTRAP, RANDOMISATION, COIN_PER_RUN)
# On a line of its own: the picture of one metric is no wider.
_CUT = "\nan interval is cut where it holds scores that do not exist"


def draw(report: Report, folder: Path, logs: Mapping[str, Sequence[Path]]) -> list[Path]:
    """Draw all pictures, PNG and SVG, into a folder, which is made if it is missing.

    Systems that ``logs`` leaves out have those found beside their hypotheses.

    Returns:
        The files. Learning curves are left out where there is no log.

    Raises:
        UserError: if the folder cannot be made, or one of ``logs`` is no training log.
    """
    check_output_folder("--plots", folder)
    folder.mkdir(parents=True, exist_ok=True)
    figures = {"runs": _runs(report), "differences": _differences(report)}
    curves = {
        system: [read_curves(log) for log in logs[system]]
        if system in logs
        else _found(report, system)
        for system in report.systems
    }
    if any(curves.values()):
        bare = [str(run.path) for run in report.runs if not run.log and run.system not in logs]
        if bare:
            logger.warning("left out of the learning curves, for want of logs: %s", ", ".join(bare))
        scores = TASKS[report.settings.task].curves
        figures["curves"] = draw_learning(curves, scores)
        leads = draw_leads(curves, report.baseline, scores)
        figures |= {"leads": leads} if leads else {}
    return [path for name, figure in figures.items() for path in save_pair(figure, folder / name)]


def _panels(report: Report, height: float) -> tuple[Any, list[tuple[str, str, Any]]]:
    """A figure with a row of panels for each test set and a panel for each metric.

    Returns:
        The figure, and for each panel the test set, the metric and matplotlib's axes.
    """
    rows, columns = len(report.test_sets), len(report.settings.metrics)
    figure = new_figure(max(4.6, 3.4 * columns), height * rows)
    named = product([corpus.name for corpus in report.test_sets], report.settings.metrics)
    panels = figure.subplots(rows, columns, squeeze=False).flat
    found = [(corpus, metric, axes) for (corpus, metric), axes in zip(named, panels, strict=True)]
    for corpus, metric, axes in found:
        arrow = " (lower is better)" if metric in report.error_rates else ""
        arrow += " (primary)" * (metric == report.settings.primary and columns > 1)
        lead = f"{corpus}: " if rows > 1 else ""
        axes.set_title(f"{lead}{metric}{arrow}", fontsize=11, parse_math=False)
    return figure, found


def _runs(report: Report) -> Any:
    """Every run as a point, the mean with its 95 % interval beside them."""
    systems, cut = report.systems, False
    figure, panels = _panels(report, 3.6)
    for corpus, metric, axes in panels:
        for place, (system, colour) in enumerate(zip(systems, colours(len(systems)), strict=True)):
            scores = report.scores(corpus, system, metric)
            # Side by side in the order of the seeds, so that equal scores stay visible.
            across = place - 0.12 + np.linspace(-_STRIP, _STRIP, len(scores) + 2)[1:-1]
            axes.plot(across, scores, "o", color=colour, markersize=5, alpha=0.65, mew=0)
            summary = report.summary(corpus, system, metric)
            drawn = _cut(summary.interval, report.settings.scale(metric).limits)
            cut = cut or drawn != summary.interval
            if drawn is not None:
                axes.plot([place + 0.2] * 2, drawn, color=colour, linewidth=2)
            axes.plot([place + 0.2], [summary.mean], "D", color=colour, markersize=6)
        style: dict[str, Any] = {"parse_math": False}
        if len(systems) > 3:
            style |= {"rotation": 30, "ha": "right", "rotation_mode": "anchor"}
        axes.set_xticks(range(len(systems)), systems, **style)
        axes.set_xlim(-0.5, len(systems) - 0.5)
        tidy(axes, grid="y")
    title = "every run; mean with 95 % interval over seeds" + _CUT * cut
    figure.suptitle(title, fontsize=10)
    return figure


def _cut(interval: Interval | None, limits: Interval) -> Interval | None:
    """An interval, cut off at the limits."""
    if interval is None:
        return None
    return max(interval[0], limits[0]), min(interval[1], limits[1])


def _differences(report: Report) -> Any:
    """A forest: the difference of each system from the baseline with Welch's interval."""
    systems = [system for system in report.systems if system != report.baseline]
    figure, panels = _panels(report, 1.3 + 0.5 * len(systems))
    relevant, cut = report.settings.relevant, False
    for corpus, metric, axes in panels:
        axes.axvspan(-relevant, relevant, color="#eeeeee", zorder=0)
        axes.axvline(0.0, color="#000000", linewidth=0.8)
        words = [""] * len(systems)
        for c in report.comparisons:
            if (c.test_set, c.metric) != (corpus, metric):
                continue
            place = systems.index(c.system)
            colour = colours(len(report.systems))[report.systems.index(c.system)]
            base = report.summary(corpus, c.baseline, metric).mean
            scale = report.settings.scale(metric)
            limits = scale.limits[0] - base, scale.limits[1] - base
            for interval, width in ((c.simultaneous, 0.8), (c.welch and c.welch.interval, 2.5)):
                if interval is not None:
                    drawn = _cut(interval, limits)
                    cut = cut or drawn != interval
                    axes.plot(drawn, [place, place], color=colour, linewidth=width)
            axes.plot([c.difference], [place], "D", color=colour, markersize=6)
            words[place] = cells.signed(c.difference, scale.digits)
            words[place] += f"\n{c.verdict}" * c.primary
        axes.set_yticks(range(len(systems)), systems, parse_math=False)
        axes.set_ylim(len(systems) - 0.5, -0.5)
        # The numbers go beside the panel: inside it they would cover lines.
        numbers = axes.secondary_yaxis("right")
        numbers.set_yticks(range(len(systems)), words, fontsize=8)
        numbers.tick_params(length=0)
        numbers.spines[:].set_visible(False)
        tidy(axes, grid="x")
        if metric != report.settings.metrics[0]:
            axes.set_yticklabels([])
    figure.suptitle(
        f"difference from {report.baseline} over seeds (Welch)\nthick: 95 % interval, thin: "
        f"simultaneous; grey: less than {cells.asked(relevant)}{_CUT * cut}",
        fontsize=10, parse_math=False,
    )  # fmt: skip
    return figure


def _found(report: Report, system: str) -> list[Curves]:
    """The training logs beside a system's hypotheses that no other system has."""
    others = {run.log for run in report.runs if run.system != system}
    beside = dict.fromkeys(run.log for run in report.runs if run.system == system)
    curves = []
    for log in beside:
        if log is None or log in others:
            continue
        try:
            curves.append(read_curves(log))
        except UserError as error:
            logger.warning("left out of the learning curves: %s", error)
    return curves


def draw_rates(rates: Sequence[Rate], path: Path) -> None:
    """A row for each rate: the share of pairs that are judged wrongly, with its 95 % interval.

    Raises:
        UserError: if matplotlib is not installed.
    """
    figure = new_figure(8.0, 1.2 + 0.26 * (len(rates) + 1.3 * len({r.scenario for r in rates})))
    axes = figure.subplots()
    blue, orange, green = colours(3)
    ticks: list[float] = []
    place, scenario = 0.0, None
    for rate in rates:
        if rate.scenario != scenario:
            scenario = rate.scenario
            place += 1.3
            axes.annotate(
                f"{scenario.what}, {scenario.runs[0]} against {scenario.runs[1]}", (0, place - 0.1),
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
    axes.legend(frameon=False, fontsize=9, loc="lower left", bbox_to_anchor=(0, 1))
    tidy(axes, grid="x")
    save(figure, path)
