"""What a stage has found so far, as CSV and JSON, so that a stopped stage can resume."""

import functools
import json
import os
from pathlib import Path
from typing import Any

from selfattn_experiments.machine import facts
from selfattn_tasks.files import csv_text, write_json, write_text

Row = dict[str, Any]


class Results:
    """Rows in ``FOLDER/STAGE.csv`` and ``FOLDER/STAGE.json``, written after each one.

    The device ``"cpu"`` is for a dry run at tiny sizes.
    """

    def __init__(self, folder: Path, stage: str, device: str) -> None:
        self.folder = folder
        self.device = device
        self.dry = device == "cpu"
        self._path = folder / f"{stage}.json"
        folder.mkdir(parents=True, exist_ok=True)
        old = json.loads(self._path.read_text("utf-8")) if self._path.exists() else []
        self.rows: list[Row] = old

    @functools.cached_property
    def _facts(self) -> dict[str, str]:
        """Asked for with the first row: tiles are also written where there is no GPU."""
        found = facts(self.device) | {"command": f"benchmarks/gpu.sh {self._path.stem}"}
        return found | {"commit": os.environ.get("COMMIT") or found["commit"]}

    def find(self, **values: Any) -> list[Row]:
        """The rows with these values."""
        return [r for r in self.rows if all(r.get(n) == value for n, value in values.items())]

    def drop(self, **values: Any) -> None:
        """Forget the rows with these values: what failed is tried again."""
        gone = self.find(**values)
        self.rows = [row for row in self.rows if row not in gone]

    def add(self, *rows: Row) -> None:
        """Keep rows, each with where it comes from."""
        self.rows += [{**row, **self._facts} for row in rows]
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        table = [[row.get(name) for name in names] for row in self.rows]
        write_text(self._path.with_suffix(".csv"), csv_text([names, *table]))
        write_json(self._path, self.rows)
