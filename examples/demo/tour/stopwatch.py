"""How long the text and the data took; a run's own record has the rest."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selfattn_tasks.files import read_object, write_json


class Stopwatch:
    """Seconds that each step took, over all attempts, kept in a file.

    Args:
        path: a JSON file; its folder is made when the first time is written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def seconds(self) -> dict[str, float]:
        """Step to seconds, in the order of the first attempts."""
        return read_object(self.path) if self.path.is_file() else {}

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Add the time of a block, whether it succeeds or not."""
        start = time.monotonic()
        try:
            yield
        finally:
            times = self.seconds()
            times[step] = round(times.get(step, 0.0) + time.monotonic() - start, 1)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_json(self.path, times)
