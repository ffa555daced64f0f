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


def plain(text):
    """A text without what differs between runs or processors: progress, numbers, translations."""
    text = re.sub(r"[^\n]*\r(?!\n)|[^\n]* lines/s.*", "", "".join(text))
    text = re.sub(r"\n  [^\n]*(?=\n  [^\n]*\(reference\))", "\n#", text)
    return " ".join(re.sub(r"\b[0-9a-f]{12}\b|[<+-]?[\d.,]+", "#", text).split())


def shown(book):
    """What each cell of code shows: its outputs by kind, with their texts."""
    cells = (cell for cell in book["cells"] if cell["cell_type"] == "code")
    outputs = [[o.get("data") or {"text": o["text"]} for o in cell["outputs"]] for cell in cells]
    return [
        [{kind: "text" in kind and plain(data) for kind, data in each.items()} for each in cell]
        for cell in outputs
    ]


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
    else:
        assert shown(book) == shown(json.loads(text))
    kinds = {kind for cell in shown(book) for each in cell for kind in each}
    assert kinds & {"image/png", "text/html"}
