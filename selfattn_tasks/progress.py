"""How far a long step is, as a line every few seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Show = Callable[[str], None]

SECONDS_BETWEEN_LINES = 10.0


class Progress:
    """Counts, and now and then shows the count, the rate and the time that is left.

    Args:
        show (Callable): takes a line.
        label (str): the beginning of each line.
        total (int, optional): where the count will end, if known.
        unit (str): what is counted.
        start (int): where the count begins, for work that was partly done before.
    """

    def __init__(
        self, show: Show, label: str, total: int | None, unit: str, start: int = 0
    ) -> None:
        self.show, self.label, self.total, self.unit = show, label, total, unit
        self.count = self._start = start
        self._begin = self._last = time.monotonic()

    def add(self, count: int) -> None:
        """Count ``count`` more."""
        self.to(self.count + count)

    def to(self, count: int) -> None:
        """Set the count."""
        self.count = count
        now = time.monotonic()
        if now - self._last >= SECONDS_BETWEEN_LINES:
            self._last = now
            self.show(self._line(now - self._begin))

    def _line(self, seconds: float) -> str:
        rate = (self.count - self._start) / seconds
        done = f"{self.label}: {self.count:,}"
        if self.total is None:
            return f"{done} {self.unit}, {rate:,.0f} a second"
        left = clock(max(0, self.total - self.count) / rate) if rate > 0 else "?"
        share = 100 * self.count / self.total if self.total else 100.0
        return (
            f"{done} of {self.total:,} {self.unit} ({share:.0f} %), {rate:,.0f} a second, "
            f"{left} left"
        )


@contextmanager
def ticking(show: Show, label: str) -> Iterator[None]:
    """Show how long a block has taken so far, for work that cannot say how far it is."""
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
    """Minutes and seconds, as in ``7:05``; from an hour on with hours, as in ``1:07:05``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
