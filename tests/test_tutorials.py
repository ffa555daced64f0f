"""The notebooks of docs/tutorials run, and what is committed is what they show.

With SELFATTN_WRITE_NOTEBOOKS=1 the outputs are written into them.
"""

import json
import os
import re
import sys
from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
pytest.importorskip("matplotlib")
nbformat = pytest.importorskip("nbformat")

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "tutorials"
# Those that train with fairseq, and what else they need.
NEEDED = {"translate": ("fairseq", "sentencepiece"), "roles": ("fairseq", "nltk", "sacremoses")}
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def shown(book):
    """What each cell of code shows: the kinds of its outputs."""
    cells = (cell for cell in book["cells"] if cell["cell_type"] == "code")
    return [{kind for o in cell["outputs"] for kind in o.get("data", ["text"])} for cell in cells]


def test_there_are_five():
    assert len(NOTEBOOKS) == 5


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_its_committed_outputs_are_whole(path, monkeypatch, tmp_path):
    for name in NEEDED.get(path.stem, ()):
        pytest.importorskip(name)
    text = path.read_text(encoding="utf-8")
    assert path.stat().st_size < 200_000
    assert not re.search(r"/(home|root|tmp|work)/|iopub", text)
    # The commands of this environment, and nothing of the notebook in the clone.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    book = nbformat.reads(text, as_version=4)
    nbclient.NotebookClient(
        book, timeout=300, record_timing=False, coalesce_streams=True,
        resources={"metadata": {"path": tmp_path}},
    ).execute()  # fmt: skip
    if os.environ.get("SELFATTN_WRITE_NOTEBOOKS"):
        nbformat.write(book, path)
    assert shown(book) == shown(json.loads(text))
    assert any(kinds & {"image/png", "text/html"} for kinds in shown(book))
