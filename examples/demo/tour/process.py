"""Run a long command, keep its whole output in a log, and look at each line as it comes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from selfattn.errors import UserError
from selfattn_experiments.process import ending
from selfattn_experiments.runs.execution.child import Child, Step, stop_all, tail
from selfattn_experiments.runs.execution.follow import NewLines
from selfattn_tasks.cli import raise_if_disk_full

_PAUSE = 0.2


def run_logged(
    what: str,
    command: Sequence[str],
    log: Path,
    *,
    on_line: Callable[[str], None] = lambda line: None,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run a command to its end; when this process is stopped, the command is stopped too.

    Args:
        what: the command's name in an error message.
        command: program and arguments.
        log: gets the command and its output, after what it holds already.
        on_line: is called with each line of output.
        environment: added to this process's environment.

    Raises:
        UserError: if it ends with another code than 0; names the code, the last line and the log.
        OSError: if it ends so because the disk is full.
    """
    step = Step(what, what, command, log)
    lines = NewLines(log)
    lines.read()  # of earlier commands
    child = Child(step, environment or {})
    try:
        running = True
        while running:
            running = child.poll() is None
            for line in lines.read():
                if not line.startswith("$ "):
                    on_line(line)
            time.sleep(_PAUSE * running)
    finally:
        stop_all([child])
    if code := child.poll():
        _fail(what, code, tail(step, 60), log)


def _fail(what: str, code: int, last: list[str], log: Path) -> None:
    raise_if_disk_full("\n".join(last), log.parent)
    reason = "no output" if last[-1].startswith("$ ") else last[-1].strip()
    raise UserError(f"{what} {ending(code)} ({reason[:200]}); its log is {log}")
