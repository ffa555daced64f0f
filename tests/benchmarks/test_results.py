"""The committed results: readable, complete, and the page shows every picture."""

from pathlib import Path

import pytest

from benchmarks.table import read

FOLDER = Path(__file__).resolve().parents[2] / "examples/benchmarks"
FILES = sorted(FOLDER.glob("*.csv"))


def test_there_are_results():
    assert FILES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_rows_are_readable_and_say_where_they_come_from(path):
    rows = read(path)
    assert len({row.key for row in rows}) == len(rows) > 0
    for row in rows:
        assert row.status in ("ok", "out of memory", "skipped")
        assert (row.ratio is not None) == (row.status == "ok")
        assert all(row.facts[name] for name in ("cpu", "python", "torch", "commit", "command"))
        assert row.facts["gpu"] or row.device == "cpu"
        assert " /" not in row.facts["command"], "a path of one machine"


def test_the_page_shows_every_picture():
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    shown = [path.name for path in FOLDER.glob("*.png") if f"({path.name})" not in text]
    assert not shown
