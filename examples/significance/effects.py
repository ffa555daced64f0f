"""A table and a picture of effects, each one system less another, from reports of comparisons.

  python examples/significance/effects.py examples/significance/effects.yaml --plot effects.png

Each panel of the YAML file is a column. Intervals are Welch's, over runs, uncorrected.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from factorial import contrast, scores_of

from selfattn.errors import UserError
from selfattn_experiments.commands.flags import check_outputs
from selfattn_experiments.compare.rendering.cells import markdown, signed, span
from selfattn_experiments.report.figures import check_picture, colours, new_figure, save, tidy
from selfattn_experiments.runs.keys import load
from selfattn_tasks.cli import run


class Effect(NamedTuple):
    """A difference of means, the limits of its 95 % interval, and whether it was planned."""

    size: float
    low: float
    high: float
    planned: bool


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, metavar="EFFECTS.yaml")
    parser.add_argument("--plot", type=Path, metavar="PICTURE")
    args = parser.parse_args()
    check_outputs(args, "plot", inputs=[args.file])
    if args.plot is not None:
        check_picture("--plot", args.plot)
    groups, metrics, found = read(args.file)
    header = ["", *(f"{title}, {metric}" for title, metric in metrics.items())]
    rows = []
    for group, names in groups.items():
        rows.append([f"**{group}**", *[""] * len(found)])
        rows += [[row, *(cell(effects.get(row)) for effects in found.values())] for row in names]
    print("\n".join(markdown(header, rows, left=len(header))))
    if args.plot:
        draw(groups, found, metrics, args.plot)


def read(path: Path) -> tuple[dict[str, list[str]], dict[str, str], dict[str, dict[str, Effect]]]:
    """Rows by their group; the metric and the effects of each panel.

    Raises:
        UserError: if the file or a report is not as it should be.
    """
    asked = load(path)
    try:
        panels = asked["panels"].items()
        found = {title: effects_of(panel, path.parent / panel["folder"]) for title, panel in panels}
        groups = {group: list(names) for group, names in asked["rows"].items()}
        known = {row for names in groups.values() for row in names}
        for row in (row for effects in found.values() for row in effects):
            if row not in known:
                raise UserError(f"{path}: the effect {row!r} is not among the rows")
        return groups, {title: panel["metric"] for title, panel in panels}, found
    except (AttributeError, KeyError, TypeError) as error:
        raise UserError(f"{path} lacks a key, or one is of the wrong kind: {error}") from None


def effects_of(panel: Mapping[str, Any], folder: Path) -> dict[str, Effect]:
    """The effects of one panel by their rows.

    Raises:
        UserError: if a report is damaged or lacks a system.
    """
    effects = {}
    for row, asked in panel["effects"].items():
        if len(set(asked["of"])) != 2 or len(asked["of"]) != 2:
            raise UserError(f"the effect {row!r} is of {asked['of']}, but must be of two systems")
        reports = [folder / f"{name}.csv" for name in asked["in"]]
        cells = [scores_of(reports, system, panel["metric"]) for system in asked["of"]]
        size, low, high = contrast(cells, (1, -1))
        effects[row] = Effect(size, low, high, asked.get("planned", False))
    return effects


def cell(effect: Effect | None) -> str:
    """``+0.83 (+0.40 to +1.26)``, bold where it was planned, nothing where it was not measured."""
    if effect is None:
        return ""
    size = signed(effect.size)
    return f"{f'**{size}**' if effect.planned else size} ({span((effect.low, effect.high))})"


def draw(
    groups: Mapping[str, list[str]],
    found: Mapping[str, Mapping[str, Effect]],
    metrics: Mapping[str, str],
    path: Path,
) -> None:
    """A forest with a panel for each setting; filled where planned, hollow where exploratory."""
    figure = new_figure(10.5, 1.2 + 0.27 * sum(len(names) + 1 for names in groups.values()))
    panels = figure.subplots(1, len(found), sharex=True, sharey=True, squeeze=False).flat
    labels: list[str] = []
    places: dict[str, int] = {}
    for group, names in groups.items():
        labels.append(group)
        places |= {row: len(labels) + i for i, row in enumerate(names)}
        labels += names
    for axes, (title, effects), colour in zip(
        panels, found.items(), colours(len(found)), strict=True
    ):
        axes.axvline(0.0, color="#000000", linewidth=0.8)
        for row, effect in effects.items():
            place, face = places[row], colour if effect.planned else "#ffffff"
            axes.plot([effect.low, effect.high], [place] * 2, color=colour, linewidth=2)
            axes.plot([effect.size], [place], "D", color=colour, markersize=6, mfc=face)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel(metrics[title])
        axes.set_yticks(range(len(labels)), labels, fontsize=9)
        for label in axes.get_yticklabels():
            label.set_fontweight("bold" if label.get_text() in groups else "normal")
        axes.set_ylim(len(labels) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        tidy(axes, grid="x")
    title = (
        "what each adds: difference of means, 95 % interval; filled: planned, hollow: exploratory"
    )
    figure.suptitle(title, fontsize=10)
    save(figure, path)


if __name__ == "__main__":
    run(main)
