"""A full disk while curves or log lines are written; files.py does the same for checkpoints."""

import atexit
import contextlib
import functools
import logging
import sys
import threading
import traceback
from typing import Any

from fairseq.logging import progress_bar

from selfattn.errors import UserError
from selfattn_tasks.cli import is_disk_full

from ._patch import wrap


@wrap(progress_bar.TensorboardProgressBarWrapper, "_log_to_tensorboard")
def explain_curves(original: Any, self: Any, *args: Any, **kwargs: Any) -> None:
    """Say once which curves could not be written.

    Break: TensorBoard writes in a thread, which dies with a traceback; its error is raised again at
    the next value (fairseq/logging/progress_bar.py) and at exit (_close_writers). Fix: one sentence
    at the next value.
    """
    try:
        original(self, *args, **kwargs)
    except OSError as error:
        if not is_disk_full(error):
            raise
        raise UserError(
            f"cannot write the curves in --tensorboard-logdir {self.tensorboard_logdir}: "
            f"{error.strerror}; checkpoints written before are intact, so free some space and "
            "run the same command again"
        ) from error


@wrap(threading, "excepthook")
def _silence_the_thread(original: Any, args: Any) -> None:
    full = isinstance(args.exc_value, OSError) and is_disk_full(args.exc_value)
    frames = traceback.extract_tb(args.exc_traceback) if full else ()
    if not any("tensorboard" in frame.filename for frame in frames):
        original(args)


atexit.unregister(progress_bar._close_writers)


@atexit.register
def _close_writers() -> None:
    for writer in progress_bar._tensorboard_writers.values():
        with contextlib.suppress(OSError):
            writer.close()


@wrap(logging.Handler, "handleError")
def explain_log(original: Any, self: logging.Handler, record: logging.LogRecord) -> None:
    """Complain once when a log line cannot be written, and go on.

    Break: Python's logging prints a traceback for each line. Fix: one sentence; training goes on,
    since its checkpoints may be on another disk.
    """
    error = sys.exc_info()[1]
    if isinstance(error, OSError) and is_disk_full(error):
        _warn_once(error.strerror)
    else:
        original(self, record)


@functools.cache
def _warn_once(reason: str) -> None:
    print(f"warning: the log is incomplete from here: {reason}", file=sys.stderr)
