"""Run a long command, keep its whole output in a log, and look at each line as it comes."""

from __future__ import annotations

import errno
import os
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from selfattn.errors import UserError
from selfattn_experiments.process import die_with_parent, ending


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
        what (str): the command's name in an error message.
        command (Sequence[str]): program and arguments.
        log (Path): gets the command and its output, after what it holds already.
        on_line (Callable[[str], None]): is called with each line of output.
        environment (Mapping[str, str], optional): added to this process's environment.

    Raises:
        UserError: if it ends with another code than 0; names the code, the last line and the log.
        OSError: if it ends so because the disk is full.
    """
    last: deque[str] = deque(maxlen=60)
    with log.open("a", encoding="utf-8") as file:
        file.write("$ " + " ".join(command) + "\n")
        file.flush()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            env=os.environ | dict(environment or {}),
            preexec_fn=partial(die_with_parent, os.getpid()),
        )
        try:
            assert process.stdout is not None
            for line in process.stdout:
                file.write(line)
                file.flush()
                last.append(line.rstrip("\n"))
                on_line(line)
            code = process.wait()
        finally:
            _stop(process)
    if code != 0:
        _fail(what, code, list(last), log)


def _stop(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _fail(what: str, code: int, last: list[str], log: Path) -> None:
    for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        if any(os.strerror(number) in line for line in last):
            raise OSError(number, os.strerror(number), str(log.parent))
    reason = next((line.strip() for line in reversed(last) if line.strip()), "no output")
    raise UserError(f"{what} {ending(code)} ({reason[:200]}); its log is {log}")
