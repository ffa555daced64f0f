"""Processes of this project: commands of its own, and processes that end with their parent."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def die_with_parent(parent: int) -> None:
    """In a new process: end with the parent, on Linux.

    Without it, a training whose parent was killed goes on beside its successor.

    Args:
        parent: process id of the parent.
    """
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # killed before the line above
            os._exit(1)


def again(*words: str) -> list[str]:
    """``selfattn WORDS`` as a command line for another process.

    It names this package by its folder: the process runs this code and no other copy, wherever it
    is started, also in a clone that is not installed.

    Args:
        words: the verb and its arguments.
    """
    return [sys.executable, str(Path(__file__).resolve().parent), *words]
