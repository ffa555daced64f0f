"""Processes: commands of this project, frugal ones, and ones that end with their parent."""

import ctypes
import os
import signal
import sys
from pathlib import Path

from selfattn.errors import UserError

from .user_dir import find_user_dir

_PR_SET_PDEATHSIG = 1
_FRUGAL = {
    # Threads that spin while they wait for a thread without a core took 26 times the CPU time of
    # threads that sleep, on two busy cores. GNU's OpenMP reads the first, Intel's the second.
    "OMP_WAIT_POLICY": "PASSIVE",
    "KMP_BLOCKTIME": "0",
    # glibc gives freed memory back and asks for it again in every update: an eighth of CPU time.
    "MALLOC_TRIM_THRESHOLD_": "1000000000",
    "MALLOC_MMAP_THRESHOLD_": "1000000000",
}
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def frugal() -> dict[str, str]:
    """What training on a CPU adds to the environment; the user's own settings win."""
    return {name: os.environ.get(name, value) for name, value in _FRUGAL.items()}


def die_with_parent(parent: int) -> None:
    """In a new process: end with the parent, on Linux.

    Without it, a process whose parent was killed would keep running beside its successor.
    """
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # killed before the line above
            os._exit(1)


def again(*words: str) -> list[str]:
    """``selfattn WORDS`` as a command line for another process.

    It names this package by its folder: the process runs this code and no other copy, wherever it
    is started, also in a clone that is not installed.
    """
    return [sys.executable, str(Path(__file__).resolve().parent), *words]


def ending(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"ended with code {code}"
    return f"was killed by signal {-code}" + (
        ", perhaps because the memory was full" if code == -9 else ""
    )


def plugin_folder(name: str) -> Path:
    """The folder of the fairseq plugin, its ``--user-dir``.

    Raises:
        UserError: if it is not installed; the message says that the key or flag ``name`` can help.
    """
    folder = find_user_dir()
    if folder is None:
        raise UserError(f"the fairseq plugin is not installed; {name} can name its folder")
    return folder
