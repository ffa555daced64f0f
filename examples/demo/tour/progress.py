"""Progress on a terminal as one line that moves, elsewhere as a line every so often."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from selfattn.files import write_json
from selfattn_experiments.report import Record
from selfattn_tasks.progress import clock

SECONDS_BETWEEN_LINES = 20.0


class Progress:
    """Show the training's update, loss, validation BLEU and the time that is left.

    Args:
        total (int): updates of the whole training.
        stream (TextIO): where to write; a moving line if it is a terminal. Default: stdout.
    """

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self.total = total
        self.stream = stream or sys.stdout
        self.moving = self.stream.isatty()
        self.loss: float | None = None
        self.bleu: tuple[int, float] | None = None
        self._first: tuple[int, float] | None = None
        self._last_line = -SECONDS_BETWEEN_LINES

    def show(self, record: Record) -> None:
        """Take the numbers of a log record and draw them."""
        if record.kind == "valid" and "bleu" in record.values:
            self.bleu = record.update, record.values["bleu"]
        elif record.kind == "train_inner":
            self.loss = record.values.get("loss", self.loss)
        else:
            return
        now = time.monotonic()
        if self._first is None:
            self._first = record.update, now
        text = self._text(record.update, now)
        if self.moving:
            width = shutil.get_terminal_size().columns - 1
            self.stream.write("\r" + text[:width].ljust(width))
        elif now - self._last_line >= SECONDS_BETWEEN_LINES or record.kind == "valid":
            self._last_line = now
            self.stream.write(text + "\n")
        self.stream.flush()

    def close(self) -> None:
        """End the moving line, so that the next output starts on a line of its own."""
        if self.moving and self._first is not None:
            self.stream.write("\n")
            self.stream.flush()

    def _text(self, update: int, now: float) -> str:
        done = min(1.0, update / self.total)
        filled = round(20 * done)
        bar = "█" * filled + "░" * (20 - filled)
        parts = [f"  {bar} {update:,}/{self.total:,}"]
        if self.loss is not None:
            parts.append(f"loss {self.loss:.2f}")
        parts.append("valid BLEU " + (f"{self.bleu[1]:.1f}" if self.bleu else "-"))
        parts.append(self._time_left(update, now))
        return "  ".join(parts)

    def _time_left(self, update: int, now: float) -> str:
        assert self._first is not None
        first_update, first_time = self._first
        if update <= first_update:
            return "time left ?"
        seconds = (now - first_time) / (update - first_update) * max(0, self.total - update)
        return f"{clock(seconds)} left"


class Stopwatch:
    """Seconds that each step took, over all attempts, kept in a file.

    Args:
        path (Path): a JSON file; its folder is made when the first time is written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def seconds(self) -> dict[str, float]:
        """Step to seconds, in the order of the first attempts."""
        if not self.path.is_file():
            return {}
        times: dict[str, float] = json.loads(self.path.read_text(encoding="utf-8"))
        return times

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
