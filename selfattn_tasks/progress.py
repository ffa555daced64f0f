"""Progress of a long step: tqdm's bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, TextIO

from selfattn.errors import needed

Show = Callable[[str], None]

SECONDS_BETWEEN_LINES = 10.0


@cache
def _bar() -> Any:
    """tqdm's class, imported when first needed: commands that show no progress do without it."""

    class Bar(needed("tqdm").tqdm):  # type: ignore[misc]
        monitor_interval = 0  # no thread in a process that may fork

    return Bar


class Progress:
    """A count with its rate and the time left, displayed by tqdm.

    Args:
        show: called with a line now and then. None draws a bar on ``stream`` if it is a terminal,
            and writes lines to it otherwise.
        label: the start of each line.
        total: the final count, if known.
        unit: what is counted.
        start: the initial count, for work that was partly done before.
        stream: used without ``show``. Default: stdout.
        **options: further arguments of tqdm.

    Raises:
        UserError: if tqdm is not installed.
    """

    def __init__(
        self,
        show: Show | None,
        label: str,
        total: int | None,
        unit: str,
        start: int = 0,
        stream: TextIO | None = None,
        **options: Any,
    ) -> None:
        stream = stream or sys.stdout
        if show is None and stream.isatty():
            how: dict[str, Any] = {"file": stream, "mininterval": 0, "dynamic_ncols": True}
        else:
            lines = _Lines(show or partial(print, file=stream, flush=True))
            how = {"file": lines, "mininterval": SECONDS_BETWEEN_LINES}
            how |= {"delay": SECONDS_BETWEEN_LINES, "leave": False, "position": 0}
        self._bar = _bar()(
            desc=label, total=total, unit=f" {unit}", initial=start, miniters=1, smoothing=0,
            unit_scale=unit == "bytes", **how | options,
        )  # fmt: skip

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def update(self, count: int = 1) -> None:
        """Advance the bar by ``count``."""
        self._bar.update(count)

    def to(self, count: int) -> None:
        """Advance the bar to ``count``."""
        self._bar.update(count - self._bar.n)


class _Lines:
    """A stream for tqdm that passes on whole lines."""

    def __init__(self, show: Callable[[str], object]) -> None:
        self._show = show

    def write(self, text: str) -> None:
        if text := text.strip("\r\n "):
            self._show(text)

    def flush(self) -> None:
        pass


@contextmanager
def ticking(show: Show, label: str) -> Iterator[None]:
    """Show how long a block has been running, for work that reports no progress itself.

    Args:
        show: called with a line now and then.
        label: the start of each line.
    """
    stop = threading.Event()
    begin = time.monotonic()

    def tick() -> None:
        while not stop.wait(3 * SECONDS_BETWEEN_LINES):
            show(f"{label}: {clock(time.monotonic() - begin)} so far")

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def clock(seconds: float) -> str:
    """``seconds`` as minutes and seconds (``07:05``), with hours from one hour on (``1:07:05``)."""
    return str(needed("tqdm").tqdm.format_interval(round(seconds)))
