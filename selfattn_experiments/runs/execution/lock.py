"""One runner at a time works on a grid: a kernel lock, which a killed runner releases.

Own code, because training inherits the lock and so outlives a killed runner with it. filelock 4
closes its descriptors in a forked process, and its FileLock cannot be shared, as ``--only`` asks.
"""

import datetime
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selfattn.errors import UserError
from selfattn_tasks.files import is_alive, read_json

# The processes of a runner that was killed hold its lock until they have noticed.
_PATIENCE = 10.0


@contextmanager
def locked(path: Path, what: str, *, shared: bool = False) -> Iterator[int]:
    """Hold a lock while a block runs.

    Args:
        path: the file of the lock; it says who holds it.
        what: what is locked, in the error message.
        shared: whether others may hold it at the same time, if all ask for that.

    Yields:
        the file's descriptor: processes that inherit it hold the lock, too.

    Raises:
        UserError: if another process holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        _take(descriptor, path, what, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        os.ftruncate(descriptor, 0)  # an owner that was killed may still stand there
        if not shared:
            since = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
            owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
            os.pwrite(descriptor, json.dumps(owner).encode(), 0)
        try:
            yield descriptor
        finally:
            os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def _take(descriptor: int, path: Path, what: str, kind: int) -> None:
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            owner = _living_owner(path)
            if owner or time.monotonic() > end:
                raise UserError(
                    f"another runner is using {what}{owner}: wait for it, or stop it first"
                ) from None
        except OSError as error:
            raise UserError(
                f"{path} cannot be locked ({error.strerror}): choose an `output` on a "
                "file system with locks"
            ) from None
        time.sleep(0.1)


def _living_owner(path: Path) -> str:
    """Who wrote the file, in brackets; empty if nobody did, or a process that is gone."""
    owner = read_json(path, "pid", "host", "since")
    if owner is None or owner["host"] == socket.gethostname() and not is_alive(owner["pid"]):
        return ""
    return f" (process {owner['pid']} on {owner['host']}, since {owner['since']})"
