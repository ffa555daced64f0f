"""How long the text and the data took; a run's own record has the rest."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selfattn_tasks.files import read_object, write_json


@contextmanager
def timed(path: Path, step: str) -> Iterator[None]:
    """Add the time of a block to a step in a JSON file, whether the block succeeds or not."""
    start = time.monotonic()
    try:
        yield
    finally:
        times = seconds(path)
        times[step] = round(times.get(step, 0.0) + time.monotonic() - start, 1)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, times)


def seconds(path: Path) -> dict[str, float]:
    """Step to seconds over all attempts, in the order of the first ones."""
    return read_object(path) if path.is_file() else {}
