"""One runner at a time works on a grid: a kernel lock, which a killed runner releases.

Own code, because a training inherits the lock and so outlives a killed runner with it. filelock 4
closes its descriptors in a forked process, and its FileLock cannot be shared, as ``--only`` asks.
"""

from __future__ import annotations

import datetime
import fcntl
import json
import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from selfattn.errors import UserError
from selfattn_tasks.folder import is_alive

# The processes of a runner that was killed hold its lock until they have noticed.
_PATIENCE = 10.0


class Lock:
    """Hold a lock while a block runs.

    The processes that inherit :attr:`descriptor` hold it, too.

    Args:
        path: the file of the lock; it says who holds it.
        what: what is locked, in the error message.
        shared: whether others may hold it at the same time, if all ask for that.

    Raises:
        UserError: if another process holds it.
    """

    def __init__(self, path: Path, what: str, *, shared: bool = False) -> None:
        self.path, self.what, self.shared = path, what, shared
        self.descriptor = -1

    def __enter__(self) -> Lock:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            self._take()
            os.ftruncate(self.descriptor, 0)  # an owner that was killed may still stand there
            if not self.shared:
                os.pwrite(self.descriptor, json.dumps(_me()).encode(), 0)
        except BaseException:
            os.close(self.descriptor)
            raise
        return self

    def __exit__(self, *error: object) -> None:
        if not self.shared:
            os.ftruncate(self.descriptor, 0)
        os.close(self.descriptor)

    def _take(self) -> None:
        kind = fcntl.LOCK_SH if self.shared else fcntl.LOCK_EX
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                fcntl.flock(self.descriptor, kind | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                owner = self._owner()
                if _may_be_alive(owner) or time.monotonic() > end:
                    raise self._refusal(owner) from None
            except OSError as error:
                raise UserError(
                    f"{self.path} cannot be locked ({error.strerror}): choose an `output` on a "
                    "file system with locks"
                ) from None
            time.sleep(0.1)

    def _owner(self) -> dict[str, Any]:
        """Who wrote the file last; empty if nobody did."""
        with suppress(ValueError, OSError):
            found = json.loads(os.pread(self.descriptor, 4096, 0))
            if isinstance(found, dict):
                return found
        return {}

    def _refusal(self, owner: dict[str, Any]) -> UserError:
        who = ""
        if _may_be_alive(owner):
            who = (
                f" (process {owner.get('pid')} on {owner.get('host')}, since {owner.get('since')})"
            )
        return UserError(f"another runner is using {self.what}{who}: wait for it, or stop it first")


def _me() -> dict[str, Any]:
    since = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    return {"pid": os.getpid(), "host": socket.gethostname(), "since": since}


def _may_be_alive(owner: dict[str, Any]) -> bool:
    """False only if the process ran on this machine and is gone."""
    if owner.get("host") != socket.gethostname() or not isinstance(owner.get("pid"), int):
        return bool(owner)
    return is_alive(owner["pid"])
