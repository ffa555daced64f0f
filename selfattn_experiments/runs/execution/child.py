"""One command of a run as a process that never outlives the runner, and the record of all of them.

The record is written while they run: what they cost is known even if everything is killed.
"""

import datetime
import hashlib
import os
import shlex
import signal
import socket
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

from selfattn.info import installed
from selfattn_tasks.cli import relative_command
from selfattn_tasks.files import read_json, write_json
from selfattn_tasks.folder import sha256_of

from ... import machine
from ...process import die_with_parent
from ...user_dir import find_user_dir
from .slots import Slot

# Training in several processes needs some seconds to end.
_GRACE = 10.0
# How much of the end of a log is read, in bytes, and shown, in lines.
_TAIL, _SHOWN = 8192, 8
# A killed runner has recorded all but this many seconds.
_BEAT = 10.0
# What is read of an attempt.
_KEYS = {"step", "seconds", "code", "commit", "cpu"}
_VERSIONS = ("python", "torch", "triton", "selfattn")
_PACKAGES = ("fairseq-fixed", "numpy", "sacrebleu", "sentencepiece")


def _begin(parent: int) -> None:
    """Run in the new process: give it its own group, but leave it in the runner's session.

    In a session of its own it would not inherit, on Linux, the runner's niceness.
    """
    os.setpgid(0, 0)
    die_with_parent(parent)


@dataclass(frozen=True)
class Step:
    """One command of a run."""

    name: str  # `train`, `average` or `test`
    title: str  # the command's name in messages
    command: Sequence[str]  # program and arguments
    log: Path  # gets the command and all that it prints, after what it holds already
    output: Path | None = None  # gets standard output instead; overwritten
    # Called once when the command has succeeded.
    done: Callable[[], None] = field(default=lambda: None, compare=False)


class Child:
    """A running step: a process group of its own, so that its own children end with it.

    Args:
        step: what to run.
        environment: added to this process's environment.
        keep_open: file descriptors that it inherits: the locks, which so outlive a
            killed runner as long as the step does.
    """

    def __init__(
        self, step: Step, environment: Mapping[str, str], keep_open: Sequence[int] = ()
    ) -> None:
        self.step = step
        with step.log.open("ab") as log:
            if log.tell() and not _end_of(step.log).endswith("\n"):  # of a process that was killed
                log.write(b"\n")
            log.write(_headline(step).encode())
            log.flush()
            output: IO[bytes] = step.output.open("wb") if step.output else log
            try:
                self._process = subprocess.Popen(
                    step.command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=log,
                    env=os.environ | dict(environment),
                    pass_fds=keep_open,
                    preexec_fn=partial(_begin, os.getpid()),
                )
            finally:
                output.close()

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.poll()

    def terminate(self) -> None:
        """Ask it and its children to end."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End what is left of it, and wait."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def wait(self, seconds: float) -> None:
        """Wait for its end, at most this long."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def _signal(self, number: int) -> None:
        # The group outlives its leader: a data loader may still run when training has ended.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def stop_all(children: Sequence[Child], grace: float = _GRACE) -> None:
    """End processes: politely first; a second Ctrl-C ends the waiting, never the cleaning up.

    They have ``grace`` seconds together.
    """
    for child in children:
        child.terminate()
    end = time.monotonic() + grace
    try:
        for child in children:
            child.wait(max(0.0, end - time.monotonic()))
    finally:
        for child in children:
            child.kill()


def _headline(step: Step) -> str:
    return f"$ {shlex.join(step.command)}\n"


def tail(step: Step) -> list[str]:
    """The command and the last non-empty lines that it wrote, nothing of earlier attempts."""
    for path in (step.log, step.output):
        if path is not None and path.is_file():
            _, command, text = _end_of(path).rpartition(_headline(step))
            found = [line for line in (command + text).splitlines() if line.strip()]
            # Nothing but the command: the reason is in the other file, if anywhere.
            if len(found) > 1 or path is step.output or step.output is None:
                return found[-_SHOWN:]
    return []


def _end_of(path: Path) -> str:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL))
        return file.read().decode("utf-8", errors="replace")


class Attempts:
    """The list of attempts of a run, in a JSON file.

    Args:
        path: of that file.
        user_dir: what fairseq imports; if it is not the project's own, its code is part of the
            commit that is noted.
    """

    def __init__(self, path: Path, user_dir: Path | None = None) -> None:
        self.path, self.user_dir = path, user_dir
        self._start = self._written = 0.0

    def read(self) -> list[dict[str, Any]]:
        """All attempts, the oldest first."""
        found = (read_json(self.path, "attempts") or {}).get("attempts", [])
        if not isinstance(found, list):  # anybody may have edited it
            return []
        return [
            one
            for one in found
            if isinstance(one, dict)
            and one.keys() >= _KEYS
            and isinstance(one["seconds"], int | float)
        ]

    def begin(self, step: Step, slot: Slot) -> None:
        """Note a process that has just been started."""
        self._start = self._written = time.monotonic()
        attempt = {
            "step": step.name,
            "command": relative_command(step.command),
            "environment": slot.environment(),
            "started": now(),
            "seconds": 0.0,
            "code": None,
            "host": socket.gethostname(),
            **facts(),  # now, because its process imports the clone as it is now
        }
        attempt["commit"] += _own_code(self.user_dir)
        write_json(self.path, {"attempts": [*self.read(), attempt]})

    def beat(self) -> None:
        """Note now and then how long it has been running."""
        if time.monotonic() - self._written >= _BEAT:
            self._update(None)

    def end(self, code: int | None, error: str | None = None) -> None:
        """Note its exit code, None if the runner stopped it, and why its output was of no use."""
        self._update(code, **({"error": error} if error else {}))

    def seconds(self) -> dict[str, float]:
        """Step to seconds, over all attempts."""
        total: dict[str, float] = defaultdict(float)
        for attempt in self.read():
            total[attempt["step"]] += attempt["seconds"]
        return {step: round(seconds, 1) for step, seconds in total.items()}

    def _update(self, code: int | None, **more: str) -> None:
        attempts = self.read()
        self._written = time.monotonic()
        if not attempts:  # somebody has removed the run's folder; its process will say so
            return
        seconds = round(self._written - self._start, 1)
        attempts[-1] |= {"seconds": seconds, "code": code, **more}
        write_json(self.path, {"attempts": attempts})


def _own_code(user_dir: Path | None) -> str:
    """``/user_dir:HASH`` of a user directory that is not the project's own, else nothing."""
    if user_dir is None or user_dir.resolve() == (find_user_dir() or user_dir).resolve():
        return ""
    files = sorted(path for path in user_dir.rglob("*.py") if path.is_file())  # no .#mine.py
    lines = [f"{path.relative_to(user_dir)} {sha256_of(path)}\n" for path in files]
    return f"/user_dir:{hashlib.sha256(''.join(lines).encode()).hexdigest()[:10]}"


def facts() -> dict[str, Any]:
    """Commit, versions and CPU of this machine."""
    found = machine.facts("cpu")
    return {
        "commit": found["commit"],
        "cpu": found["cpu"],
        "cores": found["cores"],
        "runner": found["command"],
        "versions": {name: found[name] for name in _VERSIONS}
        | {name: installed(name) or "" for name in _PACKAGES},
    }


def now() -> str:
    """The time, as in 2026-01-31T12:00:00+00:00."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
