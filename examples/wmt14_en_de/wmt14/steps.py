"""Work in steps, each done once: its folder appears complete, and says what it is made of."""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from selfattn_tasks.files import read_json, write_json
from selfattn_tasks.folder import new_folder, sha256_of
from selfattn_tasks.progress import Show

RECORD = "step.json"


def run_step(
    folder: Path,
    inputs: Mapping[str, Any],
    make: Callable[[Path], Mapping[str, Any]],
    show: Show,
) -> dict[str, Any]:
    """Make ``folder``, or leave it if it was made from the same inputs.

    An interrupted step leaves nothing behind and is made again from its start. A step is also
    made again if its inputs are others than before or one of its files is missing or has
    another size.

    Args:
        folder: the step's own folder; its name is the step's name.
        inputs: all that the result depends on: options, checksums of what is read.
        make: fills a folder and returns the counts to remember.
        show: takes a line.

    Returns:
        ``inputs``, ``counts`` and ``files`` (bytes and SHA-256 by name), as in ``step.json``.
    """
    record = read_json(folder / RECORD, "inputs", "counts", "files")
    # Compared as it is written, where a tuple is a list.
    wanted = json.loads(json.dumps(inputs))
    if record is not None:
        reason = _outdated(folder, record, wanted)
        if reason is None:
            show(f"{folder.name}: done before")
            return record
        show(f"{folder.name}: made again, because {reason}")
    with new_folder(folder, overwrite=True, mark=RECORD) as partial:
        counts = dict(make(partial))
        files = {
            path.relative_to(partial).as_posix(): [path.stat().st_size, sha256_of(path)]
            for path in sorted(partial.rglob("*"))
            if path.is_file()
        }
        record = {"inputs": wanted, "counts": counts, "files": files}
        write_json(partial / RECORD, record)
    return record


def made_of(record: Mapping[str, Any]) -> str:
    """One checksum for all files of a step, as an input of the next."""
    text = json.dumps(record["files"], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _outdated(folder: Path, record: Mapping[str, Any], inputs: Mapping[str, Any]) -> str | None:
    for name in sorted({*inputs, *record["inputs"]}):
        if record["inputs"].get(name) != inputs.get(name):
            return f"{name} is another than before"
    for name, (size, _) in record["files"].items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != size:
            return f"{name} is missing or has another size"
    return None
