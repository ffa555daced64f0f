"""Execute runs on slots: one process per slot, crashed ones restarted, none left behind."""

import re
import time
from collections import deque
from collections.abc import Callable, Sequence

from selfattn.errors import UserError
from selfattn_tasks.cli import is_disk_full, raise_if_disk_full

from ...process import ending
from ..run import Run
from .child import Child, Step, stop_all, tail
from .slots import Slot

# How a command of fairseq or this project reports a mistake that a retry cannot fix.
_MISTAKE = re.compile(r"[\w.-]+: error: ")
_STATES = {"train": "training", "average": "averaging", "test": "testing"}
_PAUSE = 0.2


class Job:
    """A run on its way."""

    def __init__(self, work: Run) -> None:
        self.work = work
        self.record = work.record()
        # Later also "training", "averaging", "testing" or "failed".
        self.state = "waiting" if self.record is None else "done"
        self.reason = ""  # why it failed
        self.crashes = 0
        self.slot: Slot | None = None
        self.steps: deque[Step] = deque()
        self.child: Child | None = None
        self.since = 0.0
        work.follower.begin_attempt()

    @property
    def running(self) -> bool:
        """Whether it has a process."""
        return self.child is not None

    @property
    def ended(self) -> bool:
        """Whether it is done or has failed."""
        return self.state in ("done", "failed")


class Scheduler:
    """Run jobs until each is done or has failed.

    Args:
        jobs: in the order in which they start.
        slots: where they run, one on each.
        retries: how often a job may crash and be started again.
        say: for what a user should read.
        show: is called after each look at the jobs.
        keep_open: file descriptors that all processes inherit.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        slots: Sequence[Slot],
        *,
        retries: int = 2,
        say: Callable[[str], None] = lambda text: None,
        show: Callable[[], None] = lambda: None,
        keep_open: Sequence[int] = (),
    ) -> None:
        self.jobs, self.retries, self.say, self.show = list(jobs), retries, say, show
        self.keep_open = keep_open
        self._free = deque(slots)

    def run(self) -> None:
        """Work until all jobs have ended; whatever interrupts it ends every process first."""
        try:
            while not all(job.ended for job in self.jobs):
                self.tick()
                self.show()
                first = next((job.child for job in self.jobs if job.child is not None), None)
                if first is not None:
                    first.wait(_PAUSE)
        finally:
            running = [job for job in self.jobs if job.child is not None]
            stop_all([job.child for job in running if job.child is not None])
            for job in running:
                job.work.attempts.end(None)
                job.child, job.state = None, "waiting"

    def tick(self) -> None:
        """Look at every process, and start what there is room for."""
        for job in self.jobs:
            if job.running:
                self._guarded(job, self._look)
        for job in self.jobs:
            if not self._free:
                break
            if job.state == "waiting":
                job.slot = self._free.popleft()
                self._guarded(job, self._begin)

    def _begin(self, job: Job) -> None:
        """Start a job, or a crashed one again, where it stopped."""
        assert job.slot is not None
        job.work.prepare()
        job.work.follower.begin_attempt()
        job.steps = deque(job.work.steps(job.slot))
        self._next(job)

    def _next(self, job: Job) -> None:
        """Start the next step, or end the job after the last one."""
        assert job.slot is not None
        if not job.steps:
            job.record = job.work.record()
            if job.record is None:
                raise UserError("its files were changed while it ran, so it is not done")
            self._end(job, "done")
            return
        step = job.steps[0]
        job.state, job.since = _STATES[step.name], time.monotonic()
        job.work.attempts.begin(step, job.slot)  # first: if it fails, nothing runs on unwatched
        job.child = Child(step, job.slot.environment(), self.keep_open)

    def _look(self, job: Job) -> None:
        assert job.child is not None
        code = job.child.poll()
        job.work.follower.read()
        if code is None:
            job.work.attempts.beat()
            return
        job.child.kill()  # what it may have left behind
        job.child = None
        job.work.attempts.end(code)
        if code == 0:
            try:
                job.steps.popleft().done()
            except (UserError, OSError) as error:
                job.work.attempts.end(code, str(error))
                raise
            self._next(job)
        else:
            self._crashed(job, job.steps[0], code)

    def _crashed(self, job: Job, step: Step, code: int) -> None:
        """Start a crashed job again, unless it has crashed too often or can only crash again."""
        lines = [line[:300] for line in tail(step)]  # a list of all --arch may be among them
        raise_if_disk_full("\n".join(lines), step.log.parent)
        job.crashes += 1
        mistake = code == 2 or bool(lines and _MISTAKE.match(lines[-1]))
        again = not mistake and job.crashes <= self.retries
        what = f"{step.title} {ending(code)}"
        then = f"; started again, {job.crashes} of {self.retries} times" if again else ""
        shown = "".join(f"\n  | {line}" for line in lines)
        self.say(f"{job.work.name}: {what}{then}; the end of {step.log}:{shown}")
        if again:
            self._begin(job)
        else:
            job.reason = lines[-1] if mistake and lines else f"{what}, see {step.log}"
            self._end(job, "failed")

    def _guarded(self, job: Job, action: Callable[[Job], None]) -> None:
        """Do something for a job; a mistake or a bad file is the end of this job alone."""
        try:
            action(job)
        except (UserError, OSError) as error:
            if isinstance(error, OSError) and is_disk_full(error):
                raise  # the others could not continue either
            if job.child is not None:  # a process that nobody looks at must not run on
                stop_all([job.child])
                job.child = None
            job.reason = str(error)
            self.say(f"{job.work.name}: {error}")
            self._end(job, "failed")

    def _end(self, job: Job, state: str) -> None:
        job.state = state
        if job.slot is not None:
            self._free.append(job.slot)
            job.slot = None
