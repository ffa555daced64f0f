"""Learning curves of a comparison, and the baseline's lead or lag along them."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from ...report import Curves
from ...report.figures import colours, legend, new_figure, over_updates
from ..run_level import welch
from . import cells

# Of each score that logs may have, its label and its digits.
Scores = Mapping[str, tuple[str, int]]


def draw_learning(curves: Mapping[str, Sequence[Curves]], scores: Scores) -> Any:
    """Mean over seeds with a band of one standard deviation, over the updates that all have."""
    shown = _curves_shown(curves, scores) or {"": "training loss"}
    figure, panels = _curve_panels(shown, "mean over seeds, band: one standard deviation")
    for (name, axes), (system, colour) in product(panels, _coloured(curves)):
        runs = [run.valid.get(name, []) if name else run.train_loss for run in curves[system]]
        updates, values = over_seeds(runs)
        if not updates:
            continue
        mean = values.mean(axis=0)
        last = cells.score(float(mean[-1]), _digits(name, scores))
        text = f"{system}: {last} {_where(updates[-1], runs)}"
        _plot(axes, updates, mean, color=colour, label=text)
        if len(values) > 1:
            spread = values.std(axis=0, ddof=1)
            axes.fill_between(updates, mean - spread, mean + spread, color=colour, alpha=0.15)
    return _labelled(figure, panels)


def draw_leads(curves: Mapping[str, Sequence[Curves]], baseline: str, scores: Scores) -> Any | None:
    """The difference of each system from the baseline over updates: a head start, or a better end?

    Returns:
        None where no validation has two runs of the baseline and of a system.
    """
    labels = _curves_shown(curves, scores)
    leads: dict[str, dict[str, np.ndarray]] = {name: {} for name in labels}
    for name, system in product(labels, curves):
        x, y = ([run.valid.get(name, []) for run in curves[side]] for side in (baseline, system))
        lead = _lead(x, y)
        if system != baseline and lead.size:
            leads[name][system] = lead
    shown = {name: label for name, label in labels.items() if leads[name]}
    if not shown:
        return None
    title = f"difference from {baseline}\nband: 95 % interval over seeds (Welch) at each update"
    figure, panels = _curve_panels(shown, title)
    for (name, axes), (system, colour) in product(panels, _coloured(curves)):
        if system in leads[name]:
            updates, mean, low, high = leads[name][system].T
            both = [run.valid.get(name, []) for s in (baseline, system) for run in curves[s]]
            last = cells.signed(mean[-1], _digits(name, scores))
            text = f"{system}: {last} {_where(int(updates[-1]), both)}"
            _plot(axes, updates, mean, color=colour, label=text)
            axes.fill_between(updates, low, high, color=colour, alpha=0.15)
    for _, axes in panels:
        axes.axhline(0.0, color="#000000", linewidth=0.8)
    return _labelled(figure, panels)


def _plot(axes: Any, updates: Sequence[float], values: Any, **style: Any) -> None:
    """A curve; a single point of it is no line, and needs a mark to be seen."""
    axes.plot(updates, values, linewidth=1.8, marker="o" * (len(updates) == 1), **style)


def _lead(
    baseline: Sequence[Sequence[tuple[int, float]]], system: Sequence[Sequence[tuple[int, float]]]
) -> np.ndarray:
    """Rows of update, difference of the means, and its interval, where each side has two runs."""
    x, y = (
        dict(zip(updates, v.T, strict=True)) for updates, v in map(over_seeds, (baseline, system))
    )
    return np.array(
        [
            (update, y[update].mean() - x[update].mean(), *test.interval)
            for update in x
            if update in y and (test := welch(x[update], y[update])) is not None
        ]
    )


def _digits(name: str, scores: Scores) -> int:
    return scores[name][1] if name in scores else 2


def _where(update: int, runs: Sequence[Sequence[tuple[int, float]]]) -> str:
    """The last update of a mean, which is not the end where runs went on without others."""
    longest = max(points[-1][0] for points in runs if points)
    return "at the end" if update == longest else f"at update {update:,} of {longest:,}"


def _curves_shown(curves: Mapping[str, Sequence[Curves]], scores: Scores) -> dict[str, str]:
    """What the logs say about validation, and its label."""
    labels = {"loss": "validation loss"}
    labels |= {name: f"validation {label}" for name, (label, _) in scores.items()}
    logged = {name for runs in curves.values() for run in runs for name in run.valid}
    return {name: label for name, label in labels.items() if name in logged}


def _curve_panels(shown: Mapping[str, str], title: str) -> tuple[Any, list[tuple[str, Any]]]:
    figure = new_figure(5.2 * len(shown), 4.0)
    figure.suptitle(title, fontsize=10, parse_math=False)
    panels = figure.subplots(1, len(shown), squeeze=False)[0]
    for label, axes in zip(shown.values(), panels, strict=True):
        axes.set_ylabel(label)
    return figure, list(zip(shown, panels, strict=True))


def _coloured(curves: Mapping[str, Any]) -> list[tuple[str, str]]:
    return list(zip(curves, colours(len(curves)), strict=True))


def _labelled(figure: Any, panels: Sequence[tuple[str, Any]]) -> Any:
    for _, axes in panels:
        legend(axes, fontsize=9)
        over_updates(axes)
    return figure


def over_seeds(runs: Sequence[Sequence[tuple[int, float]]]) -> tuple[list[int], np.ndarray]:
    """The updates at which every run has a value, and the values, shape (runs, updates)."""
    found = [dict(points) for points in runs if points]
    if not found:
        return [], np.empty((0, 0))
    updates = sorted(set.intersection(*(set(points) for points in found)))
    return updates, np.array([[points[update] for update in updates] for points in found])
