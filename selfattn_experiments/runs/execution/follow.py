"""Follow training by its log, as it grows."""

import math
import re
import time
from collections.abc import Callable
from pathlib import Path

from ...report import Curves, parse_line
from ..flags import Flags, number

_PARAMETERS = re.compile(r"num\. (?:shared )?model params: ([\d,]+)")
_SAVED = re.compile(r"Saved checkpoint .* @ (\d+) updates, score ")
_GPU = re.compile(r"capabilities =.*; name = (.+?)\s*$")


class Follower:
    """What a training log says so far.

    Args:
        log: the output of fairseq-train with ``--log-format json``, over all attempts; it need not
            be there yet.
        flags: those of fairseq-train.
        clock: seconds.
    """

    def __init__(
        self, log: Path, flags: Flags, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log, self._clock = log, clock
        # What chooses the best checkpoint.
        self.metric = (flags.get("--best-checkpoint-metric") or ["loss"])[0]
        self._maximize = "--maximize-best-checkpoint-metric" in flags
        self._max_update = number(flags, "--max-update")
        self._max_epoch = number(flags, "--max-epoch")
        self.update = 0  # the last one that was logged
        self.loss: float | None = None  # of the last training record
        # Update and value of the best validation of which a checkpoint was saved.
        self.best: tuple[int, float] | None = None
        self.parameters: int | None = None  # of the model
        self.gpus: list[str] = []  # of all attempts, which may have run on different machines
        self._read_bytes = 0
        self._curves = Curves()
        self._saved: set[int] = set()
        self._updates_an_epoch: float | None = None
        self._first: tuple[int, float] | None = None
        self._last: tuple[int, float] | None = None
        self._history = True

    def begin_attempt(self) -> None:
        """Read what earlier attempts wrote; the speed is measured from here on."""
        self._history = True
        self.read()
        self._history = False
        self._first = self._last = None

    def read(self) -> None:
        """Take the lines that were completed since the last call."""
        for line in self._new_lines():
            self._take(line)
        self._choose()

    def _new_lines(self) -> list[str]:
        try:
            with self._log.open("rb") as file:
                file.seek(self._read_bytes)
                text = file.read()
        except FileNotFoundError:
            return []
        end = text.rfind(b"\n") + 1
        self._read_bytes += end
        return text[:end].decode("utf-8", errors="replace").splitlines()

    def _take(self, line: str) -> None:
        if found := _PARAMETERS.search(line):
            self.parameters = int(found[1].replace(",", ""))
        if (found := _GPU.search(line)) and found[1] not in self.gpus:
            self.gpus.append(found[1])
        if found := _SAVED.search(line):
            self._saved.add(int(found[1]))
        record = parse_line(line)
        if record is None:
            return
        self.update = record.update
        self._curves.add(record)
        if record.kind == "train_inner":
            self.loss = record.values.get("loss", self.loss)
            if epochs := record.values.get("update"):  # as many as are done, with a fraction
                self._updates_an_epoch = record.update / epochs
        if not self._history:
            self._last = record.update, self._clock()
            self._first = self._first or self._last

    def _choose(self) -> None:
        """The best of the validations that fairseq could keep: it looks when it saves."""
        valid = self._curves.valid.get(self.metric, [])
        saved = self._saved or {update for update, _ in valid}
        kept = [(at, value) for at, value in valid if at in saved and not math.isnan(value)]
        sign = 1 if self._maximize else -1
        # Of equal ones fairseq keeps the last.
        self.best = max(kept, key=lambda found: (sign * found[1], found[0]), default=None)

    def total(self) -> int | None:
        """Updates from start to end; None while unknown."""
        by_epoch = (self._updates_an_epoch or 0.0) * (self._max_epoch or 0.0)
        ends = [end for end in (self._max_update, by_epoch) if end]
        return round(min(ends)) if ends else None

    def seconds_an_update(self) -> float | None:
        """Measured since `begin_attempt`; None before two records."""
        if self._first is None or self._last is None or self._last[0] <= self._first[0]:
            return None
        return (self._last[1] - self._first[1]) / (self._last[0] - self._first[0])

    def seconds_left(self, speed: float | None = None) -> float | None:
        """Of training, by its own speed or else by the one given; None if unknown."""
        own = self.seconds_an_update()
        rate, total = (speed if own is None else own), self.total()
        return None if rate is None or total is None else rate * max(0, total - self.update)
