"""How far the runs are: a block redrawn on a terminal, or else a line now and then.

Own code, because every row of tqdm is a bar: it has none for a run that is waiting or has failed,
and cannot hide the least important rows of a block that is longer than the terminal.
"""

from __future__ import annotations

import heapq
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import mean
from typing import Any, TextIO

from selfattn_tasks.metric import short

from .scheduler import Job

SECONDS_BETWEEN_LINES = 60.0
SECONDS_BETWEEN_DRAWINGS = 1.0
# What is hidden first if the terminal has too few lines.
_IMPORTANCE = ("averaging", "testing", "training", "failed", "waiting", "done")


class Screen:
    """Show all jobs, in a block that moves if the stream is a terminal."""

    def __init__(
        self,
        title: str,
        jobs: Sequence[Job],
        estimate: Estimate,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.title, self.jobs, self.estimate = title, jobs, estimate
        self.stream, self._clock = stream or sys.stdout, clock
        self.moving = self.stream.isatty()
        self._width = max((len(job.work.name) for job in jobs), default=0)
        self._drawn = 0
        self._next = -1.0
        self._states: dict[str, str] = {job.work.name: job.state for job in jobs}

    def say(self, text: str) -> None:
        """Write a text that later drawings leave alone."""
        self._erase()
        self.stream.write(text + "\n")
        self.stream.flush()
        self._next = -1.0

    def show(self, last: bool = False) -> None:
        """Draw the jobs again if it is time; the last drawing always is.

        The end of a block of a terminal stays where it is.
        """
        now = self._clock()
        if self.moving:
            if now < self._next and not last:
                return
            self._next = now + SECONDS_BETWEEN_DRAWINGS
            self._draw()
            if last:
                self._drawn = 0
            return
        changed = [job for job in self.jobs if self._states[job.work.name] != job.state]
        self._states.update({job.work.name: job.state for job in changed})
        lines = [self.row(job) for job in changed]
        if now >= self._next or last:
            self._next = now + SECONDS_BETWEEN_LINES
            lines += [self.row(job) for job in self.jobs if job.running and job not in changed]
            lines.append(self.header())
        if lines:
            self.stream.write("".join(line.rstrip() + "\n" for line in lines))
            self.stream.flush()

    def header(self) -> str:
        """One line for the whole grid."""
        counts = Counter("running" if job.running else job.state for job in self.jobs)
        parts = [f"{counts['done']} of {len(self.jobs)} runs done"]
        parts += [f"{counts[s]} {s}" for s in ("running", "waiting", "failed") if counts[s]]
        left = self.estimate.total()
        if counts["running"]:
            parts.append("time left unknown" if left is None else f"about {duration(left)} left")
        return f"{self.title}: {', '.join(parts)}"

    def row(self, job: Job) -> str:
        """One line for a run: state, updates, loss, best validation, time left; or the end."""
        begin = f"{job.work.name:<{self._width}}  {job.state:<9}"
        if job.state == "failed":
            return f"{begin}  {job.reason}"
        follower, total = job.work.follower, job.work.follower.total()
        if job.record is not None:
            return "  ".join([begin, f"{job.record['updates']:>11,}", *_figures(job.record)])
        updates = f"{follower.update:,}" + ("" if total is None else f"/{total:,}")
        loss = "" if follower.loss is None else f"loss {follower.loss:.2f}"
        best = "" if follower.best is None else f"best {follower.metric} {short(follower.best[1])}"
        parts = [begin, f"{updates if follower.update else '':>11}", f"{loss:<9}", f"{best:<15}"]
        left = self.estimate.of(job)
        if job.running and left:
            parts.append(f"{duration(left)} left")
        return "  ".join(parts)

    def _draw(self) -> None:
        size = shutil.get_terminal_size()
        # A terminal without a line to spare would scroll at each drawing.
        rows = self._fitting(max(1, size.lines - 3))
        lines = [self.header(), *rows]
        self._erase()
        self.stream.write("".join(_cut(line, size.columns - 1) + "\n" for line in lines))
        self.stream.flush()
        self._drawn = len(lines)

    def _fitting(self, room: int) -> list[str]:
        """The rows, or the most important ones of them and a line for the rest."""
        if len(self.jobs) <= room:
            return [self.row(job) for job in self.jobs]
        order = sorted(self.jobs, key=lambda job: _IMPORTANCE.index(job.state))
        kept = {id(job) for job in order[: room - 1]}
        hidden = Counter(job.state for job in self.jobs if id(job) not in kept)
        rest = ", ".join(f"{count} {state}" for state, count in hidden.items())
        return [self.row(job) for job in self.jobs if id(job) in kept] + [f"... {rest}"]

    def _erase(self) -> None:
        if self._drawn:
            self.stream.write(f"\x1b[{self._drawn}A\x1b[J")
            self._drawn = 0


def _figures(record: dict[str, Any]) -> list[str]:
    """The first figure of each test set."""
    found = []
    for test, figures in record["scores"].items():
        name, value = next(iter(figures.items()))
        found.append(f"{test} {name} {short(value)}")
    return found


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"


def duration(seconds: float) -> str:
    """A duration in a few letters: ``40s``, ``12m``, ``3h05m``, ``2d04h``."""
    for unit, parts, low, least in (("d", "h", 3600, 24), ("h", "m", 60, 60)):
        high, rest = divmod(round(seconds / low), least)
        if high:
            return f"{high}{unit}{rest:02d}{parts}"
    return f"{round(seconds / 60)}m" if seconds >= 59.5 else f"{round(seconds)}s"


class Estimate:
    """The time that is left, from what was measured so far."""

    def __init__(self, jobs: Sequence[Job], slots: int) -> None:
        self.jobs, self.slots = jobs, slots

    def of(self, job: Job) -> float | None:
        """Seconds until a job is done if it runs from now on; None if nothing is known yet."""
        if job.ended:
            return 0.0
        tests = self._typical(job, _test_seconds)
        speed = self._typical(job, _speed)
        left = job.work.follower.seconds_left(speed)
        if job.state in ("averaging", "testing"):
            # Other folds may still be trained.
            rest = None if tests is None else max(0.0, tests - (time.monotonic() - job.since))
            return None if rest is None else rest + (left or 0.0)
        if left is None and speed is not None:
            # Trained for some epochs: how many updates that is, another run may have counted.
            total = self._typical(job, lambda other: other.work.follower.total())
            left = None if total is None else speed * total
        return None if left is None else left + (tests or 0.0)

    def total(self) -> float | None:
        """Seconds until all are done; None as long as one of them cannot be estimated."""
        times = {id(job): self.of(job) for job in self.jobs if not job.ended}
        if any(value is None for value in times.values()):
            return None
        ends = [times[id(job)] or 0.0 for job in self.jobs if job.running]
        ends += [0.0] * (self.slots - len(ends))
        heapq.heapify(ends)
        for job in self.jobs:
            if not job.ended and not job.running:
                heapq.heapreplace(ends, ends[0] + (times[id(job)] or 0.0))
        return max(ends)

    def _typical(self, job: Job, measure: Callable[[Job], float | None]) -> float | None:
        """The mean over the jobs of the same system; if nothing is known of them, over all."""
        same = [other for other in self.jobs if other.work.system == job.work.system]
        for group in (same, self.jobs):
            known = [value for other in group if (value := measure(other)) is not None]
            if known:
                return mean(known)
        return None


def _speed(job: Job) -> float | None:
    """Seconds that an update of a job takes."""
    if job.record is not None and job.record.get("updates"):
        return float(job.record["seconds"].get("train", 0.0)) / float(job.record["updates"])
    return job.work.follower.seconds_an_update()


def _test_seconds(job: Job) -> float | None:
    """Seconds of all that follows training."""
    if job.record is None:
        return None
    return sum(seconds for step, seconds in job.record["seconds"].items() if step != "train")
