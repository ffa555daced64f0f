"""Processes that end with the one that started them."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

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
