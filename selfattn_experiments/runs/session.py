"""One call of the runner: lock the grid, check it, run it, summarise it."""

import fnmatch
import shlex
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

from selfattn.errors import UserError
from selfattn_tasks.registry import TASKS

from .execution.lock import locked
from .execution.scheduler import Job, Scheduler
from .execution.screen import Estimate, Screen
from .execution.slots import Slot, find_slots
from .folds import FoldedRun
from .grid import Grid
from .identity import Identity
from .record import digits_of, write_summary
from .run import Run


@dataclass(frozen=True)
class Options:
    """How the runs of a grid are executed."""

    device: str = "auto"  # `auto`, `cpu` or `cuda`
    jobs: int | None = None  # runs at the same time, at most
    runs_per_gpu: int = 1  # runs that share a GPU
    retries: int = 2  # how often a run may crash and be started again
    only: Sequence[str] = ()  # names of runs, or patterns; none for all


def choose(grid: Grid, patterns: Sequence[str]) -> list[tuple[str, int]]:
    """System and seed of the runs that are named.

    Raises:
        UserError: if a pattern names none.
    """
    names = {f"{system}-{seed}": (system, seed) for system, seed in grid.names()}
    if not patterns:
        return list(names.values())
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            raise UserError(f"--only {pattern} names no run; there are {', '.join(names)}")
    return [
        run for name, run in names.items() if any(fnmatch.fnmatchcase(name, p) for p in patterns)
    ]


def runs_of(grid: Grid, patterns: Sequence[str] = ()) -> list[Run]:
    """The runs that are named, checked.

    Raises:
        UserError: if a folder holds something else.
    """
    identity = Identity(grid)
    kind = Run if grid.task.folds(grid.data) is None else FoldedRun
    runs = [kind(identity, system, seed) for system, seed in choose(grid, patterns)]
    for run in runs:
        run.check()
    return runs


def work(grid: Grid, options: Options) -> int:
    """Train, test and record what is not done yet.

    Returns:
        0 if all runs are done, 1 if some have failed.

    Raises:
        UserError: if another runner works on the grid, or a folder holds something else.
    """
    slots = _slots(grid, options)
    with ExitStack() as locks:
        # Runners with --only share the grid: a task of a cluster each.
        grid_lock = locked(grid.output / ".lock", str(grid.output), shared=bool(options.only))
        held = [locks.enter_context(grid_lock)]
        runs = runs_of(grid, options.only)
        for run in runs if options.only else ():
            held.append(locks.enter_context(locked(run.folder / ".lock", str(run.folder))))
        jobs = [Job(run) for run in runs]
        screen = Screen(str(grid.output), jobs, Estimate(jobs, len(slots)))
        if (options.jobs or 0) > len(slots):
            room = f"this machine has room for {len(slots)} at a time"
            screen.say(f"--jobs is {options.jobs}, but {room}")
        scheduler = Scheduler(
            jobs, slots, retries=options.retries, say=screen.say, show=screen.show, keep_open=held
        )
        try:
            scheduler.run()
        finally:
            if not options.only:  # else others write it at the same time
                summary = write_summary(grid, runs)
            with suppress(OSError):  # the terminal may be gone
                screen.show(last=True)
        failed = [job for job in jobs if job.state == "failed"]
        if not options.only:
            print(table(summary), end="")
        for job in failed:
            print(f"failed: {job.work.name}: {job.reason}")
    return 1 if failed else 0


def dry_run(grid: Grid, options: Options) -> int:
    """Print the commands that are left to do."""
    slot = _slots(grid, options)[0]
    for run in runs_of(grid, options.only):
        if run.record() is None:
            print(f"# {run.name}")
            for step in run.steps(slot):
                into = f" > {shlex.quote(str(step.output))}" if step.output else ""
                print(shlex.join(step.command) + into)
    return 0


def summarise(grid: Grid) -> int:
    """Write and print the summary of what is there; 1 if a run is missing.

    Raises:
        UserError: if there is nothing, or a folder holds something else.
    """
    if not grid.output.is_dir():
        raise UserError(f"there is no folder {grid.output}: no run of {grid.file} has been started")
    runs = runs_of(grid)
    summary = write_summary(grid, runs)
    print(table(summary), end="")
    missing = [row for row in summary["runs"] if row["state"] != "done"]
    for row in missing:
        print(f"{row['state']}: {row['run']}")
    return 1 if missing else 0


def _slots(grid: Grid, options: Options) -> list[Slot]:
    return find_slots(
        options.device,
        gpus_per_run=grid.gpus_per_run,
        runs_per_gpu=options.runs_per_gpu,
        cpus_per_run=grid.cpus_per_run,
    )[: options.jobs]


def table(summary: dict[str, Any]) -> str:
    """Mean and standard deviation of every score of every system."""
    width = max(len(system) for system in summary["systems"])
    lines = []
    for system, scores in summary["systems"].items():
        parts = []
        for name, found in scores.items():
            digits, values = digits_of(TASKS[summary["task"]], name), found["values"]
            # Not the rounded figures beside them: 0.2546, rounded twice, would be 0.26.
            spread = "" if len(values) < 2 else f" ± {stdev(values):.{digits}f}"
            parts.append(f"{name} {mean(values):.{digits}f}{spread} (n = {found['n']})")
        lines.append(f"{system:<{width}}  {', '.join(parts) or 'no run is done'}\n")
    if len(summary["commits"]) > 1:
        lines.append(f"ran at more than one commit: {', '.join(summary['commits'])}\n")
    lines += [f"warning: {warning}\n" for warning in summary["warnings"]]
    return "".join(lines)
