"""How much longer a grid will take."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Sequence
from statistics import mean

from .scheduler import Job


class Estimate:
    """The time that is left, from what was measured so far.

    Args:
        jobs: all jobs of the grid, those that are done included.
        slots: how many run at the same time.
        clock: seconds, the clock of ``Job.since``.
    """

    def __init__(
        self, jobs: Sequence[Job], slots: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.jobs, self.slots, self._clock = jobs, slots, clock

    def of(self, job: Job) -> float | None:
        """Seconds until a job is done if it runs from now on; None if nothing is known yet."""
        if job.ended:
            return 0.0
        tests = self._typical(job, _test_seconds) or 0.0
        if job.state in ("averaging", "testing"):
            return max(0.0, tests - (self._clock() - job.since))
        speed = self._typical(job, _speed)
        left = job.work.follower.seconds_left(speed)
        if left is None and speed is not None:
            # Trained for some epochs: how many updates that is, another run may have counted.
            total = self._typical(job, lambda other: other.work.follower.total())
            left = None if total is None else speed * total
        return None if left is None else left + tests

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
    """Seconds of all that follows a training."""
    if job.record is None:
        return None
    return sum(seconds for step, seconds in job.record["seconds"].items() if step != "train")
