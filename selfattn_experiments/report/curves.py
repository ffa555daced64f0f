"""Learning curves of one or several runs as one picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from selfattn.errors import UserError
from selfattn_tasks.files import check_output
from selfattn_tasks.registry import TASKS

from .fairseq_log import Curves, Points
from .figures import colours, new_figure, save, tidy

FORMATS = (".png", ".svg", ".pdf")


def plot(runs: Mapping[str, Curves], output: Path, title: str = "") -> None:
    """Draw training and validation loss over updates, and each validation score that a task has.

    Args:
        runs: name in the legend to curves.
        output: the picture; its ending chooses the format, one of FORMATS.
        title: a line above the picture.

    Raises:
        UserError: if the ending is another, or matplotlib is not installed.
    """
    check_picture(output)
    scores = {
        name: (label, task.scale(label).digits)
        for task in TASKS.values()
        for name, label in task.valid_metrics.items()
        if any(name in curves.valid for curves in runs.values())
    }
    figure = new_figure(6.2 + 4.3 * len(scores), 4.2)
    axes = figure.subplots(1, 1 + len(scores), squeeze=False)[0]
    _draw_loss(axes[0], runs)
    for panel, (name, (label, digits)) in zip(axes[1:], scores.items(), strict=True):
        _draw_score(panel, runs, name, label, digits)
    for panel in axes:
        panel.set_xlabel("updates")
        panel.set_xlim(left=0)
        tidy(panel)
        panel.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    if title:
        figure.suptitle(title)
    save(figure, output)


def check_picture(output: Path) -> None:
    """Refuse a picture's path with an unknown ending, or one that cannot be written."""
    if output.suffix.lower() not in FORMATS:
        raise UserError(f"--output is {output}, but must end in {', '.join(FORMATS)}")
    check_output("--output", output)


def _draw_loss(panel: Any, runs: Mapping[str, Curves]) -> None:
    for colour, (name, curves) in zip(colours(len(runs)), runs.items(), strict=True):
        lead = f"{name}: " if len(runs) > 1 else ""
        if curves.train_loss:
            panel.plot(
                *zip(*curves.train_loss, strict=True),
                color=colour, linewidth=1, alpha=0.5, label=f"{lead}training",
            )  # fmt: skip
        _draw_validation(panel, curves.valid.get("loss"), colour, f"{lead}validation")
    panel.set_ylabel("loss (bits)")
    panel.set_title("loss", fontsize=11)
    panel.legend(frameon=False)


def _draw_score(
    panel: Any, runs: Mapping[str, Curves], score: str, label: str, digits: int
) -> None:
    for colour, (name, curves) in zip(colours(len(runs)), runs.items(), strict=True):
        if points := curves.valid.get(score):
            # Written beside the points, the numbers of runs that end alike would overlap.
            end = f"{points[-1][1]:.{min(digits, 3)}f} at the end"
            _draw_validation(panel, points, colour, f"{name}: {end}")
    panel.set_ylabel(label)
    # A correlation may be negative at first.
    panel.set_ylim(bottom=min(0, panel.get_ylim()[0]))
    panel.set_title(f"{label} of the validation set", fontsize=11)
    panel.legend(frameon=False, loc="lower right")


def _draw_validation(panel: Any, points: Points | None, colour: str, label: str) -> None:
    if points:
        style = {"linewidth": 1.8, "marker": "o", "markersize": 3.5}
        panel.plot(*zip(*points, strict=True), color=colour, label=label, **style)
