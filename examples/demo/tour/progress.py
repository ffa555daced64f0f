"""What the demo shows of its training, and how long its steps took."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from selfattn_experiments.report import Record
from selfattn_tasks.files import read_object, write_json
from selfattn_tasks.progress import Progress

_FORM = "  {bar:20} {n:,}/{total:,}{postfix}  {remaining} left"


class TrainingProgress:
    """Show the training's update, loss, validation BLEU and the time that is left.

    Args:
        total: updates of the whole training.
        stream: where to write; a moving line if it is a terminal. Default: stdout.
    """

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self.total, self.stream = total, stream or sys.stdout
        self._words = {"loss": "-", "valid BLEU": "-"}
        self._bar: Progress | None = None

    def show(self, record: Record) -> None:
        """Take the numbers of a log record and draw them."""
        if record.kind == "valid" and "bleu" in record.values:
            self._words["valid BLEU"] = f"{record.values['bleu']:.1f}"
        elif record.kind == "train_inner" and "loss" in record.values:
            self._words["loss"] = f"{record.values['loss']:.2f}"
        else:
            return
        words = "  ".join(f"{name} {value}" for name, value in self._words.items())
        if self._bar is None:
            self._bar = Progress(
                None, "", self.total, "updates", record.update, self.stream,
                postfix=words, bar_format=_FORM, ascii="░█", delay=0,
            )  # fmt: skip
            return
        self._bar.set_postfix_str(words, refresh=False)
        self._bar.to(record.update)
        if record.kind == "valid":
            self._bar.refresh()

    def close(self) -> None:
        """End the moving line, so that the next output starts on a new line."""
        if self._bar is not None:
            self._bar.close()


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
