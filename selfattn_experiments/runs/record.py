"""The summary of a grid as CSV and JSON."""

from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import Any

from selfattn_tasks.files import csv_text, write_json, write_text
from selfattn_tasks.task import Task

from .grid import Grid
from .run import Run

# Of the summary; the scores come after them.
_COLUMNS = (
    "run system seed state updates parameters train_seconds seconds attempts best_valid commit "
    "hardware"
).split()


def write_summary(grid: Grid, runs: Sequence[Run]) -> dict[str, Any]:
    """Write ``summary.json`` and ``summary.csv`` into the grid's folder.

    Only a run that is done has scores in them.

    Returns:
        What ``summary.json`` holds: ``runs``, a row each, and ``systems`` with mean, standard
        deviation and values of every score.
    """
    records = [(run, run.record()) for run in runs]
    rows = [_row(run, record) for run, record in records]
    systems = {name: _statistics(grid.task, rows, name) for name in grid.systems}
    summary = {
        "grid": str(grid.file),
        "task": grid.task.name,
        "commits": sorted({c for row in rows for c in row["commit"].split()}),
        "systems": systems,
        "warnings": [
            f"{run.name}: {warning}"
            for run, record in records
            for warning in (record or {}).get("warnings", [])
        ]
        + _others(grid, runs),
        "runs": rows,
    }
    write_json(grid.output / "summary.json", summary)
    scores = list(dict.fromkeys(name for row in rows for name in row["scores"]))
    names = [*_COLUMNS, *scores]
    table = [[{**row, **row["scores"]}.get(name) for name in names] for row in rows]
    write_text(grid.output / "summary.csv", csv_text([names, *table]))
    return summary


def _others(grid: Grid, runs: Sequence[Run]) -> list[str]:
    """A warning of runs in the grid's folder that it does not name, perhaps of another grid."""
    found = {path.parent.name for path in grid.output.glob("*/config.json")}
    names = sorted(found - {run.name for run in runs})
    if not names:
        return []
    return [
        f"{grid.output} also holds {', '.join(names)}, which {grid.file} does not name: grids that "
        "share `output` overwrite each other's summary"
    ]


def _row(run: Run, record: dict[str, Any] | None) -> dict[str, Any]:
    """What the summary says of a run, by its record if it is done."""
    row: dict[str, Any] = dict.fromkeys(_COLUMNS) | {
        "run": run.name,
        "system": run.system,
        "seed": run.seed,
        "commit": "",
        "hardware": "",
        "scores": {},
    }
    if record is None:
        return row | {"state": run.state()}
    attempts, best = record["attempts"], record["best_valid"]
    return row | {
        "state": "done",
        "updates": record["updates"],
        "parameters": record["parameters"],
        "train_seconds": train_seconds(record),
        "seconds": round(sum(record["seconds"].values()), 1),
        "attempts": len([attempt for attempt in attempts if attempt["step"] == "train"]),
        "best_valid": best and f"{best['metric']} {best['value']:g} at {best['update']}",
        "commit": " ".join(record["commits"]),
        "hardware": record["gpu"] or " and ".join(dict.fromkeys(a["cpu"] for a in attempts)),
        "scores": scores_of(record),
    }


def train_seconds(record: Mapping[str, Any]) -> float:
    """How long a run trained, by its record; 0 if it only was tested."""
    return float(record["seconds"].get("train", 0.0))


def scores_of(record: Mapping[str, Any]) -> dict[str, float]:
    """The scores of a run's record by columns, ``test BLEU`` for example."""
    return {
        f"{test} {name}": value
        for test, figures in record["scores"].items()
        for name, value in figures.items()
    }


def digits_of(task: Task, name: str) -> int:
    """Digits of the scores of a column, ``test Pearson`` for example."""
    return task.scale(name.rpartition(" ")[2]).digits


def _statistics(task: Task, rows: Sequence[dict[str, Any]], system: str) -> dict[str, Any]:
    """Mean, standard deviation and values of every score of a system."""
    scores = [row["scores"] for row in rows if row["system"] == system and row["scores"]]
    return {
        name: {
            "n": len(values),
            "mean": round(mean(values), digits_of(task, name) + 1),
            "sd": round(stdev(values), digits_of(task, name) + 1) if len(values) > 1 else None,
            "values": values,
        }
        for name in dict.fromkeys(name for score in scores for name in score)
        if (values := [score[name] for score in scores if name in score])
    }
