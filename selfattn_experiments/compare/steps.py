"""Steps of a grid: what each adds to the one before it, and what it costs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from selfattn.errors import UserError
from selfattn_tasks.files import read_json

from ..runs.record import scores_of, train_seconds
from .rendering.cells import points, signed, span
from .run_level import welch
from .runs import RECORD_NAME


def steps(folder: Path, metric: str) -> list[list[str]]:
    """A table of a grid's systems, heads first.

    ``a+b`` is a step from ``a``: its gain is the difference of their means, with Welch's 95 %
    interval over runs, not corrected for the number of steps.

    Args:
        folder: the grid's ``output``, or what ``examples/evidence.sh`` kept of it.
        metric: the end of a score's name, ``F1`` of ``dev F1``, for the gain.

    Raises:
        UserError: if there is no finished run, or none with such a score.
    """
    paths = sorted(folder.glob(f"*/{RECORD_NAME}"))
    runs = [run for path in paths if (run := read_json(path, "system", "scores", "seconds"))]
    # Anybody may have edited a record.
    runs = [run for run in runs if all(isinstance(run[key], dict) for key in ("scores", "seconds"))]
    if not runs:
        raise UserError(f"{folder} holds no finished run of `selfattn runs`, RUN/{RECORD_NAME}")
    names = list(scores_of(runs[0]))
    if not any(name.endswith(metric) for name in names):
        raise UserError(f"{folder} has no {metric}, but {', '.join(names)}")
    for run in runs:
        if scores_of(run).keys() != set(names):
            raise UserError(
                f"{folder} holds a run of {run['system']} with {', '.join(scores_of(run))} and one "
                f"of {runs[0]['system']} with {', '.join(names)}: all must have the same scores"
            )
    heads = ["system", "runs", *names, f"gain in {metric}", "95 % interval", "training, hours"]
    systems = sorted({run["system"] for run in runs})  # a step after the one it is from
    return [heads, *(_row(system, runs, names, metric) for system in systems)]


def _row(
    system: str, runs: Sequence[Mapping[str, Any]], names: list[str], metric: str
) -> list[str]:
    def of(name: str, key: str) -> list[float]:
        return [float(scores_of(run)[key]) for run in runs if run["system"] == name]

    own = [run for run in runs if run["system"] == system]
    main = next(name for name in names if name.endswith(metric))
    values, before = of(system, main), of(system.rpartition("+")[0], main)
    test = welch(before, values) if before else None
    return [
        system, str(len(own)), *(points(fmean(of(system, name))) for name in names),
        signed(fmean(values) - fmean(before)) if before else "-", span(test and test.interval),
        points(fmean(map(train_seconds, own)) / 3600),
    ]  # fmt: skip
