"""Commands of this Python as processes that need not import torch and fairseq again.

Importing them is most of what a small command costs. A server imports them once and forks for each
command: a process of its own, with its own arguments, environment, folder and streams, which runs
its script or module from the first line. Nothing of this project is preloaded, only compiled.
Commands that such a command starts with ``sys.executable`` come from the server, too.

Other than in a fresh process, libraries stand in ``sys.modules`` already, and all commands of one
server share a hash seed. So tests of imports ask for a fresh process, and a command whose
environment changes how Python starts gets one.
"""

from __future__ import annotations

import atexit
import compileall
import contextlib
import gc
import inspect
import json
import logging
import os
import random
import resource
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# torch._dynamo: every optimizer imports it with its first step.
LIBRARIES = (
    "numpy scipy.stats matplotlib.figure sacrebleu sentencepiece torch torch._dynamo fairseq "
    "nltk.tokenize.punkt sacremoses transformers.modeling_utils "
    "transformers.models.auto.modeling_auto"
)
# Read when Python or a library starts: for other values than the server's own, a fresh process.
AT_START = ("PYTHON", "LD_", "OMP_", "MKL_", "MPL", "LANG", "LC_")
# But these are taken over in a running process or, like what scripts call their Python, no matter
# to it: a single thread waits for no other.
TAKEN_OVER = {"PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONWARNINGS", "PYTHONIOENCODING", "PYTHON",
              "PYTHONDONTWRITEBYTECODE", "OMP_WAIT_POLICY", "MKL_NUM_THREADS"}  # fmt: skip
TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
COMPILED = ("selfattn", "selfattn_tasks", "selfattn_experiments", "plugin")
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def basic_environment() -> dict[str, str]:
    """Of the caller's environment only what a process needs, so that it cannot change results."""
    names = ["HOME", "LANG", "LD_LIBRARY_PATH", "PATH", "TMPDIR"]
    if "WHEELS" in os.environ:  # benchmarks/gpu.sh has put packages there
        names.append("PYTHONPATH")
    passed = {name: os.environ[name] for name in names if name in os.environ}
    return {**passed, **ENVIRONMENT}


class Server:
    """Runs commands, from any number of threads; use it as a context.

    ``python`` is a program for whoever wants the path of one: it runs its command in the server.
    """

    def __enter__(self) -> Server:
        for folder in COMPILED:  # Python may have been told to write no bytecode
            compileall.compile_dir(ROOT / folder, quiet=2)
        self._folder = tempfile.TemporaryDirectory()
        self._address = f"{self._folder.name}/socket"
        self.python = f"{self._folder.name}/python"
        Path(self.python).write_text(CLIENT.format(sys.executable, str(TESTS), self._address))
        Path(self.python).chmod(0o755)
        with socket.create_server(self._address, family=socket.AF_UNIX) as listener:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(listener.fileno()), self.python],
                env=basic_environment(), pass_fds=[listener.fileno()], stdin=subprocess.DEVNULL,
            )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        self._folder.cleanup()

    def run(
        self, args: Sequence[str], cwd: Path, env: Mapping[str, str], stdin: str, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """Like ``subprocess.run`` with captured text."""
        with contextlib.ExitStack() as opened:
            files = [opened.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
            files[0].write(stdin.encode())
            files[0].seek(0)
            fds = [file.fileno() for file in files]
            connection = opened.enter_context(request(self._address, args, cwd, env, fds))
            connection.recv(4)
            connection.settimeout(timeout)
            try:
                code = number(connection)
            except TimeoutError:  # the connection ends, and with it the command
                raise subprocess.TimeoutExpired(list(args), timeout) from None
            texts = [(file.seek(0), file.read().decode())[1] for file in files[1:]]
        return subprocess.CompletedProcess([sys.executable, *args], code, *texts)


def can_run(args: Sequence[str], env: Mapping[str, str], code: bool = False) -> bool:
    """Whether a command is a script, a module or, on request, code after ``-c``.

    Its environment must be like the server's own.
    """
    ours = basic_environment()
    names = {name for name in {*ours, *env} - TAKEN_OVER if name.startswith(AT_START)}
    same = all(env.get(name) == ours.get(name) for name in names)
    first = args[args[:1] == ["-u"] :][:1]
    allowed = ["-m", "-Pm", "-c"] if code else ["-m", "-Pm"]
    return same and bool(first) and (first[0] in allowed or not first[0].startswith("-"))


def request(
    address: str, args: Sequence[str], cwd: Path, env: Mapping[str, str], fds: Sequence[int]
) -> socket.socket:
    """Ask for a command; the connection gives its process number, then its exit status."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)  # what `ulimit -f` set in the caller's shell
    asked = {"args": args, "cwd": str(cwd), "env": dict(env), "limit": limit}
    text = json.dumps(asked).encode()
    socket.send_fds(connection, [len(text).to_bytes(4, "big")], fds)
    connection.sendall(text)
    return connection


def number(connection: socket.socket) -> int:
    """What the server sends."""
    return int.from_bytes(connection.recv(4), "big", signed=True)


CLIENT = """#!{0} -IS
import sys
sys.path.insert(0, {1!r})
import preloaded
preloaded.stand_in({0!r}, {2!r})
"""


def stand_in(python: str, address: str) -> None:
    """Be a Python whose command runs in the server; signals go there. Does not return."""
    args = sys.argv[1:]
    if not can_run(args, os.environ):
        os.execv(python, [python, *args])
    with request(address, args, Path.cwd(), os.environ, (0, 1, 2)) as connection:
        pid = number(connection)
        for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1"):
            signal.signal(getattr(signal, name), lambda which, _: os.kill(pid, which))
        code = number(connection)
    if code < 0:
        with contextlib.suppress(OSError):  # SIGKILL has no handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def serve(listener: socket.socket) -> None:
    """Fork for each command, as long as the process that started this one lives.

    A connection that ends before takes the command along, as whoever asked for it is gone.
    """
    parent = os.getppid()
    running: dict[int, tuple[int, socket.socket]] = {}  # by what tells the process's end
    while os.getppid() == parent:
        asking = {connection: ended for ended, (_, connection) in running.items()}
        for ready in select.select([listener, *running, *asking], [], [], 5)[0]:
            if ready is listener:
                connection = listener.accept()[0]
                with contextlib.suppress(OSError, ValueError):  # gone before it has asked
                    pid = start(connection, [listener, *asking], running)
                    running[os.pidfd_open(pid)] = pid, connection
                    connection.sendall(pid.to_bytes(4, "big"))
            elif ready in running:
                pid, connection = running.pop(ready)
                os.close(ready)
                status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                with contextlib.suppress(OSError), connection:
                    connection.sendall(status.to_bytes(4, "big", signed=True))
            elif asking[ready] in running:
                signal.pidfd_send_signal(asking[ready], signal.SIGKILL)


def start(
    connection: socket.socket, others: Sequence[socket.socket], watched: Sequence[int]
) -> int:
    """Fork for what a connection asks, and close in the new process what is not its own."""
    header, fds, _, _ = socket.recv_fds(connection, 4, 3)
    asked = json.loads(connection.recv(int.from_bytes(header, "big"), socket.MSG_WAITALL))
    pid = os.fork()
    if pid == 0:
        for other in (connection, *others):
            other.close()
        for watch in watched:
            os.close(watch)
        command(asked, fds)
    for fd in fds:
        os.close(fd)
    return pid


def command(asked: dict[str, Any], fds: Sequence[int]) -> None:
    """Become the process of a command; does not return."""
    for target, fd in enumerate(fds):
        os.dup2(fd, target)
        os.close(fd)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    resource.setrlimit(resource.RLIMIT_FSIZE, asked["limit"])
    sys.executable = sys.argv[2]
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    take_over(asked["env"])
    first, *rest = asked["args"][asked["args"][0] == "-u" :]
    code: object = None
    try:
        if first in ("-m", "-Pm"):
            sys.argv = rest
            sys.path[:1] = [asked["cwd"]] if first == "-m" else []
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        elif first == "-c":
            sys.argv = ["-c", *rest[1:]]
            sys.path[0] = asked["cwd"]
            exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
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


def take_over(env: Mapping[str, str]) -> None:
    """What Python does at its start with these variables."""
    sys.path[1:1] = filter(None, env.get("PYTHONPATH", "").split(os.pathsep))
    if "PYTHONWARNINGS" in env:
        options = env["PYTHONWARNINGS"].split(",")
        warnings._processoptions(options)  # type: ignore[attr-defined]
    names = ("stdin", "stdout", "stderr")
    for fd, name in enumerate(names):
        old = getattr(sys, name)  # remembers the file that it was made for
        stream = os.fdopen(
            fd, "w" if fd else "r", buffering=1 if fd == 2 or "PYTHONUNBUFFERED" in env else -1,
            encoding=env.get("PYTHONIOENCODING", old.encoding), errors=old.errors, closefd=False,
        )  # fmt: skip
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


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


def warm_up() -> None:
    """Do once what libraries then keep: hydra's parser, and the files that modules come from."""
    inspect.getmodule(sys._getframe())
    with contextlib.suppress(ImportError), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # and forget: a command says its own
        from fairseq import options
        from fairseq.dataclass.utils import convert_namespace_to_omegaconf

        parser = options.get_training_parser()
        convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, ["-", "--arch=lstm"]))


if __name__ == "__main__":
    logging.disable()
    for name in LIBRARIES.split():
        try:
            __import__(name)
        except ImportError:
            continue
    warm_up()
    root = logging.getLogger()  # modules of fairseq add a handler to it and set its level to DEBUG
    root.handlers.clear()
    root.setLevel(logging.WARNING)
    logging.disable(logging.NOTSET)
    gc.freeze()  # no command looks for garbage among these, which would copy their pages
    serve(socket.socket(fileno=int(sys.argv[1])))
