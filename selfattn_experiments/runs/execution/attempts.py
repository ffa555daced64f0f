"""Every process of a run, recorded while it runs: what it cost, even if everything is killed."""

from __future__ import annotations

import datetime
import json
import shlex
import socket
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from selfattn_tasks.files import write_json

from .child import Step
from .slots import Slot

# A killed runner has recorded all but this many seconds.
_BEAT = 10.0
# What is read of an attempt.
_KEYS = {"step", "seconds", "code"}


class Attempts:
    """The list of attempts of a run.

    Args:
        path: the JSON file.
        facts: commit, host, versions: kept with each attempt.
    """

    def __init__(self, path: Path, facts: Mapping[str, Any]) -> None:
        self.path, self._facts = path, facts
        self._start = self._written = 0.0

    def read(self) -> list[dict[str, Any]]:
        """All attempts, the oldest first."""
        found = (read_json(self.path, "attempts") or {}).get("attempts", [])
        return [one for one in found if isinstance(one, dict) and one.keys() >= _KEYS]

    def begin(self, step: Step, slot: Slot) -> None:
        """Note a process that has just been started."""
        self._start = self._written = time.monotonic()
        attempt = {
            "step": step.name,
            # Records are kept beside the grid, and read elsewhere.
            "command": shlex.join(step.command).replace(f"{Path.cwd()}/", ""),
            "environment": slot.environment(),
            "started": now(),
            "seconds": 0.0,
            "code": None,
            "host": socket.gethostname(),
            **self._facts,
        }
        write_json(self.path, {"attempts": [*self.read(), attempt]})

    def beat(self) -> None:
        """Note now and then how long it has been running."""
        if time.monotonic() - self._written >= _BEAT:
            self._update(None)

    def end(self, code: int | None) -> None:
        """Note its exit code; None if the runner stopped it."""
        self._update(code)

    def seconds(self) -> dict[str, float]:
        """Step to seconds, over all attempts."""
        total: dict[str, float] = defaultdict(float)
        for attempt in self.read():
            total[attempt["step"]] += attempt["seconds"]
        return {step: round(seconds, 1) for step, seconds in total.items()}

    def _update(self, code: int | None) -> None:
        attempts = self.read()
        self._written = time.monotonic()
        if not attempts:  # somebody has removed the run's folder; its process will say so
            return
        attempts[-1] |= {"seconds": round(self._written - self._start, 1), "code": code}
        write_json(self.path, {"attempts": attempts})


def now() -> str:
    """The time, as in 2026-01-31T12:00:00+00:00."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def read_json(path: Path, *keys: str) -> dict[str, Any] | None:
    """The object in a JSON file; None if the file or a key is missing, or it cannot be parsed.

    The runner writes its files atomically; one that somebody has cut or edited must not count.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) and content.keys() >= set(keys) else None
