"""What decides a run's result: two runs of one identity are the same run."""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from selfattn.errors import UserError
from selfattn_tasks.folder import sha256_of

from .flags import Flags, difference, parse
from .grid import Grid

# Enough to tell two corpora apart without reading gigabytes at every start.
_HEAD = 1 << 24


class Identity:
    """The identities of a grid's runs; the data is read once."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self._data = _fingerprint(grid.data, grid.task.data_notes)
        self._protocol = grid.task.protocol(grid.data)
        self._tests = {name: sha256_of(path) for name, path in grid.tests.items()}
        self._hashes: dict[Path, str] = {}

    def training(self, system: str, seed: int, fold: int | None = None) -> dict[str, Any]:
        """What decides the weights that training ends with."""
        grid = self.grid
        found = {
            "task": grid.task.name,
            "seed": seed,
            "flags": grid.flags(system),
            "data": self._data,
            "plugin": grid.user_dir.name,
            "gpus_per_run": grid.gpus_per_run,
        }
        # Only where there are such things: what was trained before there were stays what it is.
        if self._protocol:
            found["protocol"] = self._protocol
        return found if fold is None else found | {"fold": fold}

    def files(self, flags: Flags) -> dict[str, str]:
        """Size and beginning, hashed, of the files that flags name, such as word vectors.

        Those of training are no part of its identity, which is then the same wherever the grid is.
        """
        values = [Path(v) for given in flags.values() for v in given]
        for path in values:
            # Path.is_file would raise for a value that is too long for a name.
            if path not in self._hashes and os.path.isfile(path):
                self._hashes[path] = _beginning(path)
        return {str(path): self._hashes[path] for path in values if path in self._hashes}

    def test(self) -> dict[str, Any]:
        """What decides the scores of given weights."""
        grid = self.grid
        flags = parse(grid.generate, "generate")
        found = {
            "flags": flags,
            "average": grid.average,
            "checkpoint": None if grid.average else grid.checkpoint,
            "lowercase": grid.lowercase,
            "tests": self._tests,
        }
        files = self.files(flags)  # such as --lm-path's
        return found | {"files": files} if files else found


def digest(identity: dict[str, Any]) -> str:
    """A hash that is equal for equal identities."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def refuse_to_mix(folder: Path, file: Path, old: dict[str, Any], new: dict[str, Any]) -> None:
    """Refuse a folder with a run of another identity.

    Raises:
        UserError: one sentence that says what changed and what to do.
    """
    if old == new:
        return
    changed = [
        f"another {what} ({old.get(what)} then, {new.get(what)} now)"
        for what in ("task", "seed", "plugin", "gpus_per_run", "protocol", "fold")
        if old.get(what) != new.get(what)
    ]
    flags_then = old.get("flags")
    if flags := difference(flags_then if isinstance(flags_then, dict) else {}, new["flags"]):
        changed.append(f"other flags ({flags})")
    if old.get("data") != new["data"]:
        changed.append("other data")
    changed = changed or ["what nobody knows: its config.json was edited"]
    raise UserError(
        f"{folder} was trained with {' and '.join(changed)}: give the system in {file} another "
        "name, choose another `output`, or remove that folder"
    )


def refuse_other_files(folder: Path, old: dict[str, str], new: dict[str, str]) -> None:
    """Refuse a folder that was trained with another file of the same name.

    Raises:
        UserError: if a file that was there when it was trained is another one now.
    """
    for name, found in old.items():
        if new.get(name, found) != found:
            raise UserError(
                f"{folder} was trained with another file {name}: put that one back, choose another "
                "`output`, or remove that folder"
            )


def _beginning(path: Path) -> str:
    with path.open("rb") as file:
        return f"{path.stat().st_size} {hashlib.sha256(file.read(_HEAD)).hexdigest()}"


def _fingerprint(folder: Path, notes: Sequence[str]) -> str:
    """A hash of the names, sizes and beginnings of the files that fairseq reads."""
    found = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        read = not path.name.startswith(".") and path.suffix != ".log" and path.name not in notes
        if read and path.is_file():
            found.update(f"{path.name} {_beginning(path)}\n".encode())
    return found.hexdigest()
