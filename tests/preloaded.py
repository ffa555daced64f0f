"""Commands of this Python as processes that need not import torch and fairseq again.

Importing them is most of what a small command costs. A server imports them once and forks for each
command: a process of its own, with its own arguments, environment, folder and streams, which runs
its script or module from the first line. Nothing of this project is preloaded.

Other than in a fresh process, libraries stand in ``sys.modules`` already, and all commands of one
server share a hash seed. So tests of imports ask for a fresh process, and a command whose
environment changes how Python starts gets one.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import random
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# torch._dynamo: every optimizer imports it with its first step.
LIBRARIES = "numpy scipy.stats matplotlib sacrebleu sentencepiece torch torch._dynamo fairseq"
# Variables with these prefixes are read when Python or a library starts.
AT_START = ("PYTHON", "LD_", "OMP_", "MKL_", "MPL", "LANG", "LC_")
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def basic_environment() -> dict[str, str]:
    """Of the caller's environment only what a process needs, so that it cannot change results."""
    passed = {n: os.environ[n] for n in ("HOME", "LANG", "PATH", "TMPDIR") if n in os.environ}
    return {**passed, **ENVIRONMENT}


class Server:
    """Runs commands, from any number of threads; use it as a context."""

    def __enter__(self) -> Server:
        self._folder = tempfile.TemporaryDirectory()
        self._address = f"{self._folder.name}/socket"
        with socket.create_server(self._address, family=socket.AF_UNIX) as listener:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(listener.fileno())],
                env=basic_environment(), pass_fds=[listener.fileno()], stdin=subprocess.DEVNULL,
            )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        self._folder.cleanup()

    def can_run(self, args: Sequence[str], env: Mapping[str, str]) -> bool:
        """Whether a command is a script or module in an environment like the server's own."""
        ours = basic_environment()
        names = {name for name in {*ours, *env} if name.startswith(AT_START)}
        same = all(env.get(n) == ours.get(n) for n in names - {"PYTHONDONTWRITEBYTECODE"})
        return same and (args[0] == "-m" or not args[0].startswith("-"))

    def run(
        self, args: Sequence[str], cwd: Path, env: Mapping[str, str], stdin: str, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """Like ``subprocess.run`` with captured text."""
        request = json.dumps({"args": args, "cwd": str(cwd), "env": dict(env)}).encode()
        with contextlib.ExitStack() as opened:
            files = [opened.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
            files[0].write(stdin.encode())
            files[0].seek(0)
            connection = opened.enter_context(socket.socket(socket.AF_UNIX))
            connection.connect(self._address)
            header = len(request).to_bytes(4, "big")
            socket.send_fds(connection, [header], [file.fileno() for file in files])
            connection.sendall(request)
            pid = int.from_bytes(connection.recv(4), "big")
            connection.settimeout(timeout)
            try:
                code = int.from_bytes(connection.recv(4), "big", signed=True)
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(list(args), timeout) from None
            texts = [(file.seek(0), file.read().decode())[1] for file in files[1:]]
        return subprocess.CompletedProcess([sys.executable, *args], code, *texts)


def serve(listener: socket.socket) -> None:
    """Fork for each connection, as long as the process that started this one lives."""
    parent = os.getppid()
    listener.settimeout(5)
    while os.getppid() == parent:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        with contextlib.suppress(TimeoutError):
            connection = listener.accept()[0]
            if os.fork() == 0:
                listener.close()
                attend(connection)
            connection.close()


def attend(connection: socket.socket) -> None:
    """Fork once more for the command, and tell its number and exit status; does not return."""
    connection.setblocking(True)
    header, fds, _, _ = socket.recv_fds(connection, 4, 3)
    request = json.loads(connection.recv(int.from_bytes(header, "big"), socket.MSG_WAITALL))
    pid = os.fork()
    if pid == 0:
        connection.close()
        command(request, fds)
    connection.sendall(pid.to_bytes(4, "big"))
    status = os.waitpid(pid, 0)[1]
    connection.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))
    os._exit(0)


def command(request: dict[str, Any], fds: Sequence[int]) -> None:
    """Become the process of a command; does not return."""
    for target, fd in enumerate(fds):
        os.dup2(fd, target)
        os.close(fd)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    first, *rest = request["args"]
    code: object = None
    try:
        if first == "-m":
            sys.argv = rest
            sys.path[0] = request["cwd"]
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        else:
            sys.argv = [first, *rest]
            sys.path[0] = str(Path(first).resolve().parent)
            runpy.run_path(first, run_name="__main__")
    except SystemExit as end:
        code = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        code = 1
    os._exit(finish(code))


def finish(code: object) -> int:
    """End as the interpreter does, and return the exit status."""
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.closed or sys.stdout.flush()
    except OSError:
        code = 120
    sys.stderr.flush()
    return int(code or 0) & 0xFF


if __name__ == "__main__":
    for name in LIBRARIES.split():
        try:
            __import__(name)
        except ImportError:
            continue
    root = logging.getLogger()  # modules of fairseq add a handler to it and set its level to DEBUG
    root.handlers.clear()
    root.setLevel(logging.WARNING)
    serve(socket.socket(fileno=int(sys.argv[1])))
